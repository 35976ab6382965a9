import t, { type Test } from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { delay } from '../../src/lib/signals.ts'
import { bearerFor, FrontClient, kubernetesPath } from '../cluster/front-client.ts'
import { type RunningFront, startHaproxy, startNginx } from '../cluster/front-program.ts'
import { sidesThrough } from '../cluster/front-sides.ts'
import { FrontedReplicas } from '../cluster/fronted-replicas.ts'
import { type Running, runningExec, runningWatch, silentExec, silentWatch } from '../cluster/running-streams.ts'
import { absent } from '../support/absent.ts'
import { deployment } from '../support/kubectl-operations.ts'
import type { KubectlSide } from '../support/kubectl-side.ts'
import { assets, skip } from '../support/kubectl-stack.ts'

/** Watches and execs without any traffic for minutes, through nginx and haproxy at once, go on. */

const { minutes }: { minutes: number } = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"minutes":6}')

/** the first agent connects by WebSocket, the second by gRPC */
const fronts = [
  { program: 'nginx', start: startNginx, agents: [42, 43] },
  { program: 'haproxy', start: startHaproxy, agents: [44, 45] },
] as const
const needs = fronts.map(({ program }) => program).filter(absent)

t.test(
  `idle for ${minutes} minutes`,
  { skip: skip || (needs.length > 0 && `needs ${needs.join(', ')}`), timeout: minutes * 60_000 + 180_000 },
  async (t) => {
    const controlPlane = new ControlPlane({ assets, parts: 'all' })
    t.teardown(() => controlPlane.stop())
    const [replicas] = await Promise.all([FrontedReplicas.start(t), controlPlane.start()])
    const idle = await Promise.all(
      fronts.map(async ({ program, start, agents }) => {
        const front = await start(replicas)
        const sides = await sidesThrough(front, agents, { replicas, controlPlane })
        const running = await Promise.all(
          sides.map((side, i) => begin(side, front, { agent: agents[i] as number, ca: replicas.ca })),
        )
        return { program, running: running.flat() }
      }),
    )
    await delay(minutes * 60_000)
    for (const { program, running } of idle) await t.test(program, (t) => goOn(t, running))
  },
)

async function begin(side: KubectlSide, front: RunningFront, { agent, ca }: { agent: number; ca: string }) {
  const { kubectl } = side
  await kubectl.ok(['apply', '-f', '-'], { stdin: deployment(1) })
  await kubectl.ok(['rollout', 'status', 'deployment/web', '--timeout=25s'])
  const url = `${front.url}${kubernetesPath}`
  return await Promise.all([
    runningWatch(side),
    runningExec(side, true),
    runningExec(side, false),
    silentWatch(side, new FrontClient({ url: front.url, ca }, agent)),
    silentExec(side, { url, ca, headers: { authorization: bearerFor(agent) } }),
  ])
}

async function goOn(t: Test, running: readonly Running[]): Promise<void> {
  for (const { what, goesOn } of running) {
    const began = performance.now()
    await t.resolves(goesOn(), what)
    t.comment(`${what}: after ${Math.round(performance.now() - began)} ms, kubectl's own start included`)
  }
}
