/** Uses the share of one core in its argument, until its parent ends: it shows the cost of a busy machine alone. */

const share = Number(process.argv[2])
const turnMs = 10

process.on('disconnect', () => process.exit())
setInterval(() => {
  const end = performance.now() + turnMs * share
  while (performance.now() < end);
}, turnMs)
