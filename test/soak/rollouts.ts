import { ExternalMetrics } from '../support/nodes/external-metrics.ts'
import { NodesGround } from '../support/nodes/nodes-ground.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { badRollouts } from './rollouts/bad.ts'
import { goodRollouts } from './rollouts/good.ts'
import { playBad, playGood, tellBad, tellGood } from './rollouts/rollouts.ts'
import { atOnce } from './views/at-once.ts'

/** Rollouts on real nodes: those that go well are never Degraded, those that do not end the gate before their deadline. */

const nodes = 3
/** rollouts at once, that two cores carry */
const lanes = 5
const deadlineSeconds = 180
/** A crash comes back within that. */
const stable = '30s'

onNodes('rollouts', { file: import.meta.url, nodes, timeoutMs: 1_500_000 }, async (t, cluster) => {
  const ground = await NodesGround.start(t, cluster)
  const metrics = await ExternalMetrics.start(t, cluster)
  const components = { ground, metrics }
  for (let node = 1; node <= nodes; node++) await cluster.startEmptyRegistry(node, ground.processes)

  await t.test(`${goodRollouts.length} that go well`, async (t) => {
    await atOnce(lanes, goodRollouts.entries(), ([i, rollout]) =>
      tellGood(t, rollout, playGood(rollout, `good-${i + 1}`, components)),
    )
  })

  await t.test(`${badRollouts.length} that do not`, async (t) => {
    const beside: (() => Promise<void>)[] = []
    await atOnce(lanes, badRollouts.entries(), async ([i, rollout]) => {
      const playing = playBad(rollout, `bad-${i + 1}`, components, { deadlineSeconds, stable })
      const answered = await tellBad(t, rollout, playing)
      beside.push(() => answered((status) => status.answer()))
    })
    await Promise.all(beside.map((answered) => answered()))
  })
})
