// The page for those who have not shown a token yet.
import { signal } from "@preact/signals";
import { reason } from "../client";
import { signIn } from "../session";

const failed = signal<string | null>(null);
const busy = signal(false);

async function enter(token: string): Promise<void> {
  busy.value = true;
  try {
    await signIn(token);
    failed.value = null;
  } catch (error) {
    failed.value = reason(error);
  } finally {
    busy.value = false;
  }
}

export function Login() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void enter(String(form.get("token") ?? "").trim());
  };
  return (
    <main class="login">
      <form class="panel" onSubmit={submit}>
        <h1>Catchment</h1>
        <p>This node wants to know who you are.</p>
        <label>Token
          <input name="token" type="password" autocomplete="current-password" required autofocus />
        </label>
        <p class="note">An admin makes one: <code>catchment token add NAME --role operator</code></p>
        <p class="error" role="alert">{failed.value}</p>
        <div class="buttons"><button type="submit" class="go" disabled={busy.value}>Sign in</button></div>
      </form>
    </main>
  );
}
