// The properties of a device, and a form for those that can be set.
import { signal } from "@preact/signals";
import type { Device } from "../api";
import { call, get, reason } from "../client";
import * as format from "../format";
import { mayOperate, notice } from "../store";
import { Modal } from "./modal";

interface PropertySchema {
  type: "boolean" | "integer" | "number" | "string" | "null";
  description?: string;
  unit?: string;
  minimum?: number;
  maximum?: number;
  readOnly?: boolean;
}

/** By the path of the device and the names of its properties, which a front-end may add to. */
const schemas = signal<ReadonlyMap<string, Record<string, PropertySchema>>>(new Map());
const asked = new Set<string>();
const open = signal<{ device: Device; name: string } | null>(null);
const problem = signal<string | null>(null);

function keyOf(device: Device): string {
  return [device.path, ...Object.keys(device.properties)].join("\n");
}

function schemaOf(device: Device): Record<string, PropertySchema> {
  const key = keyOf(device);
  if (!asked.has(key)) {
    asked.add(key);
    get<{ properties: Record<string, PropertySchema> }>(`/devices/${device.path}/schema`).then(
      (schema) => { schemas.value = new Map(schemas.value).set(key, schema.properties); },
      () => { asked.delete(key); },
    );
  }
  return schemas.value.get(key) ?? {};
}

function parsed(text: string, type: PropertySchema["type"]): unknown {
  if (type === "string") return text;
  return type === "boolean" ? text === "true" : Number(text);
}

async function save(device: Device, name: string, value: unknown): Promise<void> {
  try {
    await call<Device>("PATCH", `/devices/${device.path}/properties`, { [name]: value });
    open.value = null;
    notice.value = { kind: "done", text: `${name} of ${device.path} is set.` };
  } catch (error) {
    problem.value = reason(error);
  }
}

function Field({ value, schema }: { value: unknown; schema: PropertySchema }) {
  if (schema.type === "boolean") {
    return (
      <select name="value" autofocus>
        {["true", "false"].map((word) => (
          <option key={word} value={word} selected={word === String(value)}>{word}</option>
        ))}
      </select>
    );
  }
  if (schema.type === "string") {
    return <input name="value" type="text" maxLength={1024} defaultValue={String(value)} autofocus />;
  }
  return (
    <input
      name="value" type="number" required autofocus min={schema.minimum} max={schema.maximum}
      step={schema.type === "integer" ? 1 : "any"} defaultValue={String(value)}
    />
  );
}

/** Asks for the value of a property. */
export function SettingDialog() {
  const now = open.value;
  const schema = now === null ? undefined : schemaOf(now.device)[now.name];
  if (now === null || schema === undefined) return null;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get("value") ?? "");
    void save(now.device, now.name, parsed(text, schema.type));
  };
  const range = schema.minimum === undefined ? "" : ` from ${schema.minimum} to ${schema.maximum}`;
  return (
    <Modal title={`Set ${now.name} of ${now.device.path}`} close={() => { open.value = null; }}>
      <form class="edit" onSubmit={submit}>
        <label>{schema.description ?? now.name}{range}{" "}
          <Field value={now.device.properties[now.name]} schema={schema} /> {schema.unit ?? ""}
        </label>
        {problem.value === null ? null : <p class="error" role="alert">{problem.value}</p>}
        <div class="buttons">
          <button type="button" onClick={() => { open.value = null; }}>Go back</button>
          <button type="submit" class="go">Set</button>
        </div>
      </form>
    </Modal>
  );
}

export function Properties({ device }: { device: Device }) {
  const schema = schemaOf(device);
  return (
    <dl class="properties">
      {Object.entries(device.properties).map(([name, value]) => {
        const of = schema[name];
        const settable = of !== undefined && of.readOnly !== true && mayOperate.value;
        return (
          <div key={name}>
            <dt title={of?.description}>{name}</dt>
            <dd class="figure">
              {format.plain(value)}{of?.unit === undefined ? "" : ` ${of.unit}`}
              {settable ? (
                <button
                  type="button" class="quiet" aria-label={`Set ${name} of ${device.path}`}
                  onClick={() => { problem.value = null; open.value = { device, name }; }}
                >
                  Set
                </button>
              ) : null}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
