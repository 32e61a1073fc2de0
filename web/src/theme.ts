// Dark or light: as the system says, unless somebody chose.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "dark" | "light";
const KEY = "catchment.theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "dark" || value === "light" ? value : "system";
  } catch {
    return "system";
  }
}

export const theme = signal<Theme>(stored());
const system = matchMedia("(prefers-color-scheme: light)");
const systemLight = signal(system.matches);
/** What is shown; plots draw themselves anew when it changes. */
export const shown = signal<"dark" | "light">("dark");

export function watchTheme(): void {
  system.addEventListener("change", () => { systemLight.value = system.matches; });
  effect(() => {
    const chosen = theme.value;
    const light = chosen === "system" ? systemLight.value : chosen === "light";
    document.documentElement.dataset.theme = light ? "light" : "dark";
    shown.value = light ? "light" : "dark";
    try {
      if (chosen === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, chosen);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  });
}
