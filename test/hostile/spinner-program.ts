/** Uses a share of one core, which its argument says, until its parent leaves: for what a busy machine costs by itself. */

const share = Number(process.argv[2])
const turnMs = 10

process.on('disconnect', () => process.exit())
setInterval(() => {
  const end = performance.now() + turnMs * share
  while (performance.now() < end);
}, turnMs)
