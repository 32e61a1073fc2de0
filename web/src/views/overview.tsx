// The view that a shifter has open all night.
import { groups, needsAttention, urgentFirst, worstFirst } from "../order";
import { AcknowledgeAll, AlarmCard } from "../parts/alarms";
import { Flow } from "../parts/flow";
import { LastRun } from "../parts/last_run";
import { Plots } from "../parts/plots";
import { GroupTile, SourceTable } from "../parts/sources";
import { StoreNode } from "../parts/store";
import { Targets } from "../parts/targets";
import { Tiles } from "../parts/tiles";
import { Icon } from "../parts/icon";
import { link } from "../route";
import { openAlarms, sources, state } from "../store";
import { count, many } from "../format";

const ALARMS_MAX = 4;
const ROWS = 6;

function AlarmPanel() {
  const open = urgentFirst(openAlarms.value);
  return (
    <section class="panel" aria-labelledby="alarms-title">
      <div class="panel-head">
        <h2 id="alarms-title">Alarms</h2>
        <AcknowledgeAll shown={open} />
        <a href={link("alarms")}>All alarms</a>
      </div>
      {open.length === 0
        ? <p class="calm-line"><Icon name="check" /> No alarm.</p>
        : <ul class="alarms">{open.slice(0, ALARMS_MAX).map((alarm) => <AlarmCard key={alarm.id} alarm={alarm} />)}</ul>}
      {open.length > ALARMS_MAX ? <p class="note">and {open.length - ALARMS_MAX} more</p> : null}
    </section>
  );
}

function SourcePanel() {
  const known = sources.value;
  const bad = known.filter(needsAttention).length;
  return (
    <section class="panel" aria-labelledby="sources-title">
      <div class="panel-head">
        <h2 id="sources-title">
          Sources <span class="note">{count(bad)} of {many(known.length, "source")} {bad === 1 ? "needs" : "need"} attention; worst first</span>
        </h2>
        <a href={link("sources")}>All sources</a>
      </div>
      <ul class="groups">{groups(known).map((group) => <GroupTile key={group.name} group={group} />)}</ul>
      <SourceTable sources={worstFirst(known).slice(0, ROWS)} rows={ROWS} label="The worst sources" />
    </section>
  );
}

export function Overview({ item }: { item: string | null }) {
  const now = state.value;
  if (!now) return null;
  const store = now.store ?? null;
  return (
    <>
      {store ? null : <LastRun />}
      <Tiles now={now} />
      {now.warnings.length === 0 ? null : (
        <ul class="warnings" aria-label="Warnings">
          {now.warnings.map((warning) => <li key={warning}><Icon name="warning" />{warning}</li>)}
        </ul>
      )}
      <div class="columns">
        {now.run ? <Flow stages={now.flow} /> : null}
        <AlarmPanel />
      </div>
      {store ? <StoreNode store={store} /> : <Targets now={now} item={item} />}
      <Plots />
      {store ? null : <SourcePanel />}
    </>
  );
}
