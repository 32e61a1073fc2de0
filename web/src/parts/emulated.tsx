// Says that data are emulated, wherever somebody could take them for a detector's.

export function Emulated({ long = false }: { long?: boolean }) {
  return (
    <span class="emulated" title="The node sends these data itself: no detector does.">
      EMULATED{long ? <span class="note"> no detector sends these data</span> : null}
    </span>
  );
}
