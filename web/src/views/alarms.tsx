// All alarms: those that wait for somebody first.
import { many } from "../format";
import { urgentFirst } from "../order";
import { AcknowledgeAll, AlarmCard } from "../parts/alarms";
import { Icon } from "../parts/icon";
import { alarms, state } from "../store";

export function AlarmsView() {
  const all = urgentFirst(alarms.value);
  const waiting = state.value?.alarms.unacknowledged ?? 0;
  return (
    <section class="panel" aria-labelledby="alarms-title">
      <div class="panel-head">
        <h2 id="alarms-title">Alarms <span class="note">{many(waiting, "alarm")} not acknowledged</span></h2>
        <AcknowledgeAll shown={all} />
      </div>
      {all.length === 0
        ? <p class="calm-line"><Icon name="check" /> No alarm.</p>
        : <ul class="alarms">{all.map((alarm) => <AlarmCard key={alarm.id} alarm={alarm} />)}</ul>}
    </section>
  );
}
