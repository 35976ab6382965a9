import t, { type Test } from 'tap'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { Terminal } from '../../../../../support/terminal.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'
import { startViewsServer, type Viewer } from './views-server.ts'

/** Plays an hour of a busy cluster on a terminal, with the agent's real views. */

const start = Date.parse('2026-06-01T12:00:00Z')
const second = 1000
const minutes = 60
const stepSeconds = 10
const deployments = 30

const iso = (time: number) => new Date(time).toISOString()
const long = `a-name-that-is-as-long-as-names-of-pods-may-well-be-${'x'.repeat(60)}`
const words = [
  'back-off 5m0s restarting',
  'läuft nicht',
  '画像が見つかりません',
  '✅ done, ❌ not done',
  'x'.repeat(300),
]

/** A cluster in which exactly one object is Degraded at any time. */
class Cluster {
  readonly #stage: ClusterStage
  readonly #random = new Seeded(7)

  constructor(stage: ClusterStage) {
    this.#stage = stage
    for (let i = 0; i < deployments; i++) this.#deployment(i, 1, {})
  }

  /** Makes a usual change: another number of replicas, another text. */
  step(): void {
    const i = this.#random.int(deployments)
    const message = this.#random.pick(words)
    const isUp = this.#random.chance(0.5)
    this.#deployment(i, this.#random.int(40), isUp ? {} : { message })
  }

  /** @param minute - minute of the hour; each minute has another Degraded object */
  worst(minute: number): string {
    if (minute > 0) this.#stage.deleted(this.#worst(minute - 1))
    this.#stage.put(this.#worst(minute))
    return `worst-${minute}`
  }

  #worst(minute: number): KubernetesObject {
    const failed = { phase: 'Failed', reason: 'Evicted', message: `${this.#random.pick(words)} ${long}` }
    return this.#object('v1', 'Pod', `worst-${minute}`, {}, failed)
  }

  #deployment(i: number, replicas: number, { message }: { message?: string }): void {
    const conditions = message === undefined ? [] : [{ type: 'Progressing', status: 'True', message }]
    const up = message === undefined ? replicas : 0
    const status = { replicas, updatedReplicas: replicas, readyReplicas: up, availableReplicas: up, conditions }
    this.#stage.put(this.#object('apps/v1', 'Deployment', `${long}-${i}`, { replicas }, status))
  }

  #object(apiVersion: string, kind: string, name: string, spec: object, status: object): KubernetesObject {
    const metadata = { name, namespace: 'shop', uid: `${kind} ${name}`, creationTimestamp: iso(start - 86_400_000) }
    return { apiVersion, kind, metadata, spec, status }
  }
}

/** Serves each requested view with a view of the agent. */
async function serve(stage: ClusterStage, viewer: Viewer): Promise<() => void> {
  const asked = await viewer.request(({ type }) => type === 'open')
  const { type: _, id, agent: __, fresh, ...query } = asked as Extract<typeof asked, { type: 'open' }>
  const view = stage.host.open(
    {
      caller: user('ann'),
      viewer: { key: 'ann' },
      query: Buffer.from(JSON.stringify(query)),
      ...(fresh ? { fresh } : {}),
    },
    {
      update(seq, json) {
        viewer.say(`{"type":"update","id":${id},"update":${Buffer.from(json).toString()}}`)
        view.taken(seq)
      },
      ended(error) {
        throw error
      },
    },
  )
  viewer.onRequest((request) => {
    if (request.type === 'page') view.page(request.node, request.limit, request.offset)
  })
  return () => view.close()
}

async function play(t: Test, size: { columns: number; rows: number }, ...argv: string[]) {
  const stage = new ClusterStage(start, await rulesOf([]))
  t.teardown(() => stage.close())
  const cluster = new Cluster(stage)
  stage.mayNotList('ann', [])
  stage.listed()
  const terminal = new Terminal(size)
  for (let line = 0; line < 200; line++) terminal.write(`line ${line} of what was there before\r\n`)
  const before = { screen: terminal.screen, scrollback: [...terminal.scrollback] }
  const { viewer: nextViewer, runWith } = await startViewsServer(t)
  const { code, interrupt } = runWith({ clock: stage.clock, terminal }, ...argv)
  let viewer = await nextViewer()
  let close = await serve(stage, viewer)
  t.teardown(() => close())
  const pass = async (ms: number) => {
    await stage.pass(ms)
    await viewer.heard()
  }
  for (let i = 0; i < 20; i++) await pass(100) // until rights are known and all nodes are open
  /** @param each - called after each minute with the name of the Degraded object */
  const hour = async (each: (name: string) => void) => {
    for (let minute = 0; minute < minutes; minute++) {
      const name = cluster.worst(minute)
      for (let at = 0; at < 60; at += stepSeconds) {
        cluster.step()
        await pass(stepSeconds * second)
      }
      each(name)
    }
  }
  /** Cuts the connection and accepts the next one. */
  const lose = async () => {
    close()
    viewer.cut()
    let found: Viewer | undefined
    const coming = nextViewer().then((one) => {
      found = one
    })
    while (!found) await stage.pass(100)
    await coming
    viewer = found
    close = await serve(stage, viewer)
  }
  return { terminal, before, hour, code, interrupt, lose }
}

const [small, large] = [
  { columns: 80, rows: 24 },
  { columns: 200, rows: 60 },
]
for (const [size, ...argv] of [
  [small, 'tree', '-n', 'shop', '--watch'],
  [large, 'tree', '-n', 'shop', '--watch'],
  [small, 'get', 'po,deploy', '-n', 'shop', '--watch', '-o', 'wide'],
  [large, 'get', 'po,deploy', '-n', 'shop', '--watch', '-o', 'wide'],
] as const) {
  const title = `an hour of kas ${argv.join(' ')} at ${size.columns} by ${size.rows}`
  t.test(title, { timeout: 120_000 }, async (t) => {
    const { terminal, before, hour, code, interrupt, lose } = await play(t, size, ...argv)
    await hour((name) => {
      const { screen } = terminal
      const at = screen.findIndex((line) => line.includes(name))
      t.ok(at >= 0 && at <= 1, `the worst, ${name}, is the first row`)
      t.match(screen[at], /✗/)
      t.match(screen.slice(at, at + 2).join('\n'), /Evicted/, 'with why')
    })
    await lose()
    t.ok(terminal.isOther && terminal.isCursorHidden)
    t.strictSame([terminal.wrapped, terminal.lost], [0, 0], 'no line is wrapped, none is scrolled away')
    interrupt()
    t.equal(await code, 130)
    t.notOk(terminal.isOther || terminal.isCursorHidden)
    t.strictSame({ screen: terminal.screen, scrollback: terminal.scrollback }, before, 'what was there is there')
  })
}

for (const size of [small, large]) {
  t.test(`an hour of kas health --wait at ${size.columns} by ${size.rows}`, { timeout: 120_000 }, async (t) => {
    const argv = ['health', '-n', 'shop', '--wait', '55m', '--stable', '2h', '--no-fail-fast', '--logs', '0']
    const { terminal, hour, code } = await play(t, size, ...argv)
    await hour(() => {})
    t.equal(await code, 4)
    t.equal(terminal.wrapped, 0)
    const said = [...terminal.scrollback, ...terminal.screen].join('\n')
    for (const minute of [1, 30, 54]) t.match(said, `✗ degraded shop/Pod/worst-${minute}`)
    t.match(said, /✗ degraded \(1 degraded, /, 'in the end how it is then')
    t.ok(terminal.scrollback[0]?.startsWith('line 0 of what was there before'))
  })
}
