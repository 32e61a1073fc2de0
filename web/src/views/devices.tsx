// Everything that runs, as a tree: states, reasons, properties.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Device, DeviceState } from "../api";
import { get, reason } from "../client";
import * as format from "../format";
import { ShutDown } from "../parts/control";
import { Icon } from "../parts/icon";
import { Properties, SettingDialog } from "../parts/settings";
import { stale, state } from "../store";
import { STATE_WORDS } from "../words";

const REFRESH_MS = 2000;
const list = signal<Device[]>([]);
const failed = signal<string | null>(null);

async function load(): Promise<void> {
  try {
    list.value = (await get<{ devices: Device[] }>("/devices")).devices;
    failed.value = null;
  } catch (error) {
    failed.value = reason(error);
  }
}

function StateBadge({ of }: { of: DeviceState }) {
  const bad = of === "fault" || of === "safe";
  return (
    <span class={`badge status-${bad ? "silent" : of === "recording" ? "good" : "never"}`}>
      <Icon name={bad ? "stop" : of === "recording" ? "check" : "never"} />{STATE_WORDS[of]}
    </span>
  );
}

export function DevicesView() {
  useEffect(() => {
    void load();
    const timer = setInterval(() => { if (!stale.peek() && !document.hidden) void load(); }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [state.value?.state]);
  return (
    <section class="panel" aria-labelledby="devices-title">
      <div class="panel-head">
        <h2 id="devices-title">
          Devices <span class="note">{format.many(list.value.length, "device")}</span>
        </h2>
        {state.value ? <ShutDown now={state.value} /> : null}
      </div>
      {failed.value === null ? null : <p class="error">{failed.value}</p>}
      <ul class="devices">
        {list.value.map((device) => (
          <li key={device.path} class={`depth-${Math.min(4, device.path.split("/").length - 1)}`}>
            <div class="device-head">
              <strong>{device.path.split("/").at(-1)}</strong>
              <StateBadge of={device.state} />
              <span class="note">{device.path}, {device.kind}</span>
            </div>
            {device.reason === null ? null : <p class="error">{device.reason}</p>}
            <Properties device={device} />
          </li>
        ))}
      </ul>
      <SettingDialog />
    </section>
  );
}
