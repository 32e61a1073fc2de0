// What data pass through, from left to right: how busy each stage is and how full the queues before
// it are. The stage that limits all others is marked.
import type { Queue, Stage } from "../api";
import * as format from "../format";
import { Fill } from "./figure";
import { Icon } from "./icon";

function QueueFill({ queue }: { queue: Queue }) {
  const share = (value: number) => (queue.capacity_bytes > 0 ? value / queue.capacity_bytes : 0);
  const level = share(queue.level_bytes);
  const highest = share(queue.highest_bytes);
  const capacity = format.join(format.bytes(queue.capacity_bytes));
  return (
    <div class="queue" title={`${queue.name}: ${format.wholePercent(level)} of ${capacity} now, ${format.wholePercent(highest)} at most`}>
      <span class="queue-name">{queue.name}</span>
      <span class="figure">{format.wholePercent(level)}</span>
      <Fill level={level} highest={highest} label={`${queue.name}, of ${capacity}`} />
      <span class="note">of {capacity}, max {format.wholePercent(highest)}</span>
    </div>
  );
}

export function Flow({ stages }: { stages: Stage[] }) {
  return (
    <section class="panel" aria-labelledby="flow-title">
      <h2 id="flow-title">Flow <span class="note">sources → disk; the mark is the highest level so far</span></h2>
      <ol class="flow">
        {stages.map((stage) => (
          <li key={stage.name} class={stage.bottleneck ? "stage bottleneck" : "stage"}>
            <div class="stage-head">
              <strong>{stage.name}</strong>
              <span class="figure">{format.join(format.bytesPerSecond(stage.bytes_per_second))}</span>
            </div>
            <div class="queue">
              <span class="queue-name">busy</span>
              <span class="figure">{format.wholePercent(stage.busy)}</span>
              <Fill level={stage.busy ?? 0} label={`${stage.name}: share of time busy`} />
            </div>
            {stage.queues.map((queue) => <QueueFill key={queue.name} queue={queue} />)}
            {stage.bottleneck ? (
              <div class="bottleneck-mark"><Icon name="bottleneck" /> bottleneck</div>
            ) : null}
          </li>
        ))}
      </ol>
    </section>
  );
}
