// Alarms and their acknowledgement.
import { signal } from "@preact/signals";
import type { Alarm } from "../api";
import { call, reason } from "../client";
import * as format from "../format";
import { fetchAlarms } from "../live";
import { link } from "../route";
import { mayOperate, notice, nowMs, sources } from "../store";
import { ALARM_STATE_WORDS, alarmWords } from "../words";
import { Icon, SEVERITY_ICONS } from "./icon";
import { Modal, sendByKey } from "./modal";

/** The alarms that somebody is about to acknowledge. */
const asked = signal<Alarm[] | null>(null);

const waits = (alarm: Alarm): boolean => alarm.state === "active" || alarm.state === "latched";

async function acknowledge(seen: Alarm[], text: string): Promise<void> {
  asked.value = null;
  const comment = text.trim() || null;
  const [one] = seen;
  try {
    // All: those that stood there, and none that came meanwhile.
    if (seen.length === 1 && one) {
      await call<unknown>("POST", `/alarms/${encodeURIComponent(one.id)}/acknowledge`, { comment });
    } else await call<unknown>("POST", "/alarms/acknowledge", { ids: seen.map(({ id }) => id), comment });
    // The stream says it too, unless it is just being opened again.
    await fetchAlarms();
  } catch (error) {
    notice.value = { kind: "failed", text: `The alarm was not acknowledged: ${reason(error)}` };
  }
}

/** A button for all alarms of a list that nobody has acknowledged. */
export function AcknowledgeAll({ shown }: { shown: Alarm[] }) {
  const waiting = shown.filter(waits);
  if (waiting.length < 2 || !mayOperate.value) return null;
  return (
    <button type="button" onClick={() => { asked.value = waiting; }}>
      Acknowledge all {format.count(waiting.length)}
    </button>
  );
}

/** "acknowledged by anna"; one that is cleared was cleared by nobody. */
function stateWords({ state, acknowledged_by: who }: Alarm): string {
  const words = ALARM_STATE_WORDS[state];
  if (who === null) return words;
  return state === "acknowledged" ? `${words} by ${who}` : `${words}, acknowledged by ${who}`;
}

/** "active since …"; of one that is over, when it ended. */
function When({ alarm }: { alarm: Alarm }) {
  const words = stateWords(alarm);
  const since = `${format.utcSince(alarm.since, nowMs.value)} UTC`;
  if (alarm.ended !== null) {
    return <>{words} · from {since} to {format.utcSince(alarm.ended, nowMs.value)} UTC</>;
  }
  const age = Math.max(0, (nowMs.value - Date.parse(alarm.since)) / 1000);
  return <>{words} · since {since} ({format.join(format.duration(age))})</>;
}

function Names({ alarm }: { alarm: Alarm }) {
  const name = (one: string) => sources.value.some((source) => source.name === one)
    ? <a href={link("sources", one)}>{one}</a> : <>{one}</>;
  if (alarm.source !== null) return <> · {name(alarm.source)}</>;
  if (alarm.sources.length < 2) return null;
  return (
    <details>
      <summary>{format.many(alarm.source_count, "source")}{alarm.group === null ? "" : ` in ${alarm.group}`}</summary>
      <span class="alarm-names">{alarm.sources.map((one) => <span key={one}>{name(one)}</span>)}</span>
    </details>
  );
}

export function AlarmCard({ alarm }: { alarm: Alarm }) {
  return (
    <li class={`alarm severity-${alarm.severity} alarm-${alarm.state}`}>
      <Icon name={SEVERITY_ICONS[alarm.severity]} />
      <div class="alarm-text">
        <strong>{alarmWords(alarm.name)}</strong> <span class="note">{alarm.severity}</span>
        <div>{alarm.text}</div>
        <div class="note">
          <When alarm={alarm} /><Names alarm={alarm} />
        </div>
      </div>
      {waits(alarm) && mayOperate.value ? (
        <button type="button" onClick={() => { asked.value = [alarm]; }} aria-label={`Acknowledge: ${alarmWords(alarm.name)}`}>
          Acknowledge
        </button>
      ) : null}
    </li>
  );
}

export function AlarmDialog() {
  const seen = asked.value;
  const [one] = seen ?? [];
  if (!seen || !one) return null;
  const close = () => { asked.value = null; };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void acknowledge(seen, String(form.get("comment") ?? ""));
  };
  const title = seen.length === 1 ? `Acknowledge “${alarmWords(one.name)}”?` : `Acknowledge ${format.many(seen.length, "alarm")}?`;
  return (
    <Modal key={one.id} title={title} close={close}>
      <form onSubmit={submit} onKeyDown={sendByKey}>
        {seen.length === 1 ? <p>{one.text}</p> : <ul>{seen.map((alarm) => <li key={alarm.id}>{alarm.text}</li>)}</ul>}
        <label>
          What is being done <span class="note">(optional)</span>
          <textarea name="comment" rows={2} maxLength={2000} autofocus />
        </label>
        <div class="buttons">
          <button type="button" onClick={close}>Cancel</button>
          <button type="submit" class="go">Acknowledge</button>
        </div>
      </form>
    </Modal>
  );
}
