import { ExternalMetrics } from '../support/nodes/external-metrics.ts'
import { NodesGround } from '../support/nodes/nodes-ground.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { badRollouts } from './rollouts/bad.ts'
import { goodRollouts } from './rollouts/good.ts'
import { playBad, playGood, tellBad, tellGood } from './rollouts/rollouts.ts'
import { atOnce } from './views/at-once.ts'

/** Rollouts on real nodes: good ones are never Degraded, and for bad ones the gate ends before their deadline. */

const nodes = 3
/** rollouts at once, as many as two cores can run */
const lanes = 5
const deadlineSeconds = 180
/** A rollout that crashes does so again within this time. */
const stable = '30s'

onNodes('rollouts', { file: import.meta.url, nodes, timeoutMs: 2_400_000 }, async (t, cluster) => {
  const ground = await NodesGround.start(t, cluster)
  const metrics = await ExternalMetrics.start(t, cluster)
  const components = { ground, metrics }
  for (let node = 1; node <= nodes; node++) await cluster.startEmptyRegistry(node, ground.processes)

  const beside: (() => Promise<void>)[] = []
  const good = goodRollouts.map(
    (rollout, i) => () => tellGood(t, rollout, playGood(rollout, `good-${i + 1}`, components)),
  )
  const bad = badRollouts.map((rollout, i) => async () => {
    const playing = playBad(rollout, `bad-${i + 1}`, components, { deadlineSeconds, stable })
    const answered = await tellBad(t, rollout, playing)
    beside.push(() => answered((status) => status.answer()))
  })
  await atOnce(lanes, [...good, ...bad], (play) => play())
  await Promise.all(beside.map((answered) => answered()))
  t.comment(`${good.length} that go well, ${bad.length} that do not`)
})
