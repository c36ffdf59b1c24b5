export default function ({ data: { address, most, ...rollout } }) {
  const ahead = (window.__rolloutBoardAhead ??= new Map());
  ahead.delete(address);
  ahead.set(address, rollout);
  while (ahead.size > most) ahead.delete(ahead.keys().next().value);
}
