// Alarms and their acknowledgement.
import { signal } from "@preact/signals";
import type { Alarm } from "../api";
import { call, reason } from "../client";
import * as format from "../format";
import { fetchAlarms } from "../live";
import { link } from "../route";
import { mayOperate, notice, nowMs } from "../store";
import { ALARM_STATE_WORDS, alarmWords } from "../words";
import { Icon, SEVERITY_ICONS } from "./icon";
import { Modal } from "./modal";

const asked = signal<Alarm | null>(null);

async function acknowledge(alarm: Alarm, comment: string): Promise<void> {
  asked.value = null;
  try {
    await call<unknown>("POST", `/alarms/${encodeURIComponent(alarm.id)}/acknowledge`, {
      comment: comment.trim() || null,
    });
    // The stream says it too, unless it is just being opened again.
    await fetchAlarms();
  } catch (error) {
    notice.value = { kind: "failed", text: `The alarm was not acknowledged: ${reason(error)}` };
  }
}

export function AlarmCard({ alarm }: { alarm: Alarm }) {
  const age = Math.max(0, (nowMs.value - Date.parse(alarm.since)) / 1000);
  const waits = alarm.state === "active" || alarm.state === "latched";
  return (
    <li class={`alarm severity-${alarm.severity} alarm-${alarm.state}`}>
      <Icon name={SEVERITY_ICONS[alarm.severity]} />
      <div class="alarm-text">
        <strong>{alarmWords(alarm.name)}</strong> <span class="note">{alarm.severity}</span>
        <div>{alarm.text}</div>
        <div class="note">
          {ALARM_STATE_WORDS[alarm.state]}
          {alarm.acknowledged_by ? ` by ${alarm.acknowledged_by}` : ""} · since {format.utcClock(alarm.since)} UTC
          {" "}({format.join(format.duration(age))})
          {alarm.source ? <> · <a href={link("sources", alarm.source)}>{alarm.source}</a></> : null}
        </div>
      </div>
      {waits && mayOperate.value ? (
        <button type="button" onClick={() => { asked.value = alarm; }} aria-label={`Acknowledge: ${alarmWords(alarm.name)}`}>
          Acknowledge
        </button>
      ) : null}
    </li>
  );
}

export function AlarmDialog() {
  const alarm = asked.value;
  if (!alarm) return null;
  const close = () => { asked.value = null; };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void acknowledge(alarm, String(form.get("comment") ?? ""));
  };
  return (
    <Modal key={alarm.id} title={`Acknowledge “${alarmWords(alarm.name)}”?`} close={close}>
      <form onSubmit={submit}>
        <p>{alarm.text}</p>
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
