// The frame around all views: who, where, when; the verdict is on every one of them.
import { useEffect } from "preact/hooks";
import { utcClock } from "./format";
import { AlarmDialog } from "./parts/alarms";
import { ControlDialog, Notices } from "./parts/control";
import { Emulated } from "./parts/emulated";
import { Icon } from "./parts/icon";
import { Veil } from "./parts/veil";
import { Announcer, Verdict } from "./parts/verdict";
import { VIEWS, type View, link, route } from "./route";
import { signOut } from "./session";
import { notice, session, stale, state } from "./store";
import { type Theme, theme } from "./theme";
import { AlarmsView } from "./views/alarms";
import { DevicesView } from "./views/devices";
import { Login } from "./views/login";
import { LogsView } from "./views/logs";
import { Overview } from "./views/overview";
import { RunsView } from "./views/runs";
import { SourcesView } from "./views/sources";

const TITLES: Record<View, string> = {
  overview: "Overview", sources: "Sources", runs: "Runs", alarms: "Alarms", logs: "Log",
  devices: "Devices",
};
/** What a storage node has not. */
const OF_RECORDERS: View[] = ["sources", "runs"];
const NEXT_THEME: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };

function ThemeSwitch() {
  const now = theme.value;
  return (
    <button type="button" class="quiet" onClick={() => { theme.value = NEXT_THEME[now]; }}
      aria-label={`Colours: ${now}. Change to ${NEXT_THEME[now]}.`} title={`Colours: ${now}`}>
      <Icon name={now} />
    </button>
  );
}

function Navigation() {
  const here = route.value.view;
  const waiting = state.value?.alarms.unacknowledged ?? 0;
  return (
    <nav aria-label="Views">
      {VIEWS.filter((view) => !state.value?.store || !OF_RECORDERS.includes(view)).map((view) => (
        <a key={view} href={link(view)} aria-current={view === here ? "page" : undefined}>
          {TITLES[view]}
          {view === "alarms" && waiting > 0
            ? <span class="count" aria-label={`${waiting} not acknowledged`} role="img">{waiting}</span> : null}
        </a>
      ))}
    </nav>
  );
}

function Who() {
  const who = session.value;
  if (who === null || who === "unknown") return null;
  const leave = () => void signOut().catch(() => {
    notice.value = { kind: "failed", text: "Signing out did not work: no answer from the node." };
  });
  return (
    <span class="who">
      <span>{who.name}, {who.role}</span>
      {who.name === "local" ? null : <button type="button" class="quiet" onClick={leave}>Sign out</button>}
    </span>
  );
}

function Header() {
  const now = state.value;
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={(event) => {
        // The part of the address behind # belongs to the views.
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>To the content</a>
      <span class="name">Catchment</span>
      <span class="node">{now?.node.name ?? ""}</span>
      {now?.emulated ? <Emulated /> : null}
      <Navigation />
      <span class="time figure">{now ? utcClock(now.time) : "--:--:--"} UTC</span>
      <Who />
      <ThemeSwitch />
    </header>
  );
}

function CurrentView() {
  const { view, item } = route.value;
  switch (view) {
    case "sources": return <SourcesView item={item} />;
    case "runs": return <RunsView item={item} />;
    case "alarms": return <AlarmsView />;
    case "logs": return <LogsView />;
    case "devices": return <DevicesView />;
    case "overview": return <Overview item={item} />;
  }
}

export function App() {
  useEffect(() => { scrollTo({ top: 0 }); }, [route.value.view]);
  if (session.value === null) return <Login />;
  return (
    <>
      <div class={stale.value ? "content is-stale" : "content"}>
        <Header />
        <main id="main" tabIndex={-1}>
          <Verdict />
          <Notices />
          <CurrentView />
        </main>
        <Announcer />
        <footer class="note">
          {state.value ? `Catchment ${state.value.node.version} on ${state.value.node.name}` : ""}
          {" · "}<a href="/api/docs">API</a> · <a href="/metrics">Metrics</a>
        </footer>
      </div>
      <ControlDialog />
      <AlarmDialog />
      <Veil />
    </>
  );
}
