import type { Test } from 'tap'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { ShownView } from '../../../src/kas/modules/views/cli/shown-view.ts'
import { isGroup, verdictOf } from '../../../src/kas/modules/views/cli/shown-view.ts'
import type { Row } from '../../../src/proto/views-json.ts'
import type { TestProcess } from '../../support/processes.ts'
import { LiveTree } from '../../support/views/live-tree.ts'
import type { BadRollout } from './bad.ts'
import type { GoodRollout } from './good.ts'
import { type RolloutComponents, RolloutStage } from './rollout-stage.ts'

/** limit until a view is live. ms */
const liveMs = 60_000
/** Time that the gate waits for the end of a finished rollout. */
const gateWait = '120s'

export interface PlayedGood {
  readonly ms: number
  /** updates of the view of its namespace */
  readonly updates: number
  /** messages of a root, or of an object below one, while it was Degraded: each once, with its first time */
  readonly degraded: readonly string[]
  readonly degradedBelow: readonly string[]
  /** exit code of `kas health`, once the cluster reports completion */
  readonly code: number
  readonly said: string
}

/** Plays a good rollout, while a view of its namespace is followed. */
export async function playGood(
  rollout: GoodRollout,
  namespace: string,
  components: RolloutComponents,
): Promise<PlayedGood> {
  const { ground } = components
  const stage = await RolloutStage.start(namespace, components)
  /** messages with ms after the begin */
  const [degraded, degradedBelow] = [new Map<string, number>(), new Map<string, number>()]
  let updates = 0
  let began = performance.now()
  const view = new LiveTree({
    endpoint: ground.endpoint,
    query: { view: 'tree', scope: { namespaces: [namespace] }, limit: 500 },
    opens: () => true,
    onUpdate: (model) => {
      updates++
      const roots = rootsOf(model)
      for (const row of model.rows.values()) {
        if (verdictOf(row) !== 'Degraded' || isGroup(row)) continue
        const said = roots.has(row.u) ? degraded : degradedBelow
        const text = textOf(row)
        if (!said.has(text)) said.set(text, performance.now() - began)
      }
    },
  })
  try {
    await view.until('the view is live', () => view.isLive, liveMs)
    began = performance.now()
    await rollout.play(stage)
    const ms = performance.now() - began
    const { code, stdout, stderr } = await ground.kas('health', '-n', namespace, '--wait', gateWait, '--stable', '1s')
    await view.until('the view is live to the end', () => view.isLive, liveMs)
    const texts = (of: ReadonlyMap<string, number>) => [...of].map(([text, at]) => `at ${seconds(at)} ${text}`)
    const said = stdout + stderr
    return { ms, updates, degraded: texts(degraded), degradedBelow: texts(degradedBelow), code, said }
  } finally {
    await view.stop()
  }
}

function rootsOf(model: ShownView): ReadonlySet<string> {
  const open = (row: Row) => (isGroup(row) ? model.children(row.u) : [row])
  return new Set(
    model
      .children('')
      .flatMap(open)
      .map(({ u }) => u),
  )
}

/** kas' message about the row, and about its cause, which may be another object. */
function textOf({ k, n, z, why }: Row): string {
  const cause = z ? `; ${z.reason} of ${z.kind}/${z.name}: ${z.text}` : ''
  return `${k}/${n}: ${why?.[2] || why?.[0] || ''}${cause}`
}

export interface PlayedBad {
  readonly code: number
  readonly ms: number
  readonly said: string
  /**
   * the gate ended after the deadline: by the object's condition, or for StatefulSets, which have none, by its duration
   */
  readonly isPastDeadline: boolean
  readonly status: RolloutStatus
}

/** `kubectl rollout status` beside the gate. */
export class RolloutStatus {
  readonly #process: TestProcess
  readonly #began = performance.now()
  readonly #ended: Promise<string>
  #hasEnded = false

  constructor(process: TestProcess) {
    this.#process = process
    this.#ended = process.exited.then(({ code, stdout, stderr }) => {
      this.#hasEnded = true
      const last = `${stdout}${stderr}`.trim().split('\n').at(-1) ?? ''
      return `exit ${code} after ${seconds(performance.now() - this.#began)}: ${last}`
    })
  }

  /** its answer, or that it waits */
  async now(): Promise<string> {
    if (this.#hasEnded) return this.#ended
    this.#process.signal('SIGKILL')
    await this.#ended
    return 'it still waits'
  }

  /** its answer, when it comes */
  answer(): Promise<string> {
    return this.#ended
  }
}

export const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

export interface BadOptions {
  /** `progressDeadlineSeconds` of Deployments */
  readonly deadlineSeconds: number
  /** `--stable` of `kas health`: a workload that is ready for that long is rolled out */
  readonly stable: string
}

/** Plays a bad rollout before the gate, and beside `kubectl rollout status`. */
export async function playBad(
  rollout: BadRollout,
  namespace: string,
  components: RolloutComponents,
  { deadlineSeconds, stable }: BadOptions,
): Promise<PlayedBad> {
  const { ground } = components
  const stage = await RolloutStage.start(namespace, components)
  const objects = rollout.objects(namespace, { progressDeadlineSeconds: deadlineSeconds })
  await stage.create(...objects)
  const target = objects.at(-1) as KubernetesObject
  const name = `${target.kind.toLowerCase()}/${target.metadata.name}`
  const wait = ['rollout', 'status', name, '-n', namespace, `--timeout=${deadlineSeconds + 30}s`]
  const status = new RolloutStatus(await ground.kubectl.start(wait))
  const began = performance.now()
  const gate = ['health', name, '-n', namespace, '--wait', `${2 * deadlineSeconds}s`, '--stable', stable]
  const { code, stdout, stderr } = await ground.kas(...gate)
  const ms = performance.now() - began
  const now = await stage.until(target, () => true)
  const isPast = isPastDeadline(now) || ms >= deadlineSeconds * 1000
  return { code, ms, said: `${stderr}${stdout}`, isPastDeadline: isPast, status }
}

const isPastDeadline = ({ status }: KubernetesObject) =>
  (status.conditions ?? []).some(
    ({ type, reason }: Record<string, string>) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded',
  )

/** Asserts that a rollout succeeded in a viewer's eyes; the figures are a comment. */
export async function tellGood(t: Test, { name }: GoodRollout, playing: Promise<PlayedGood>): Promise<void> {
  const played = await settled(t, name, playing)
  if (!played) return
  const { ms, updates, degraded, degradedBelow, code, said } = played
  const below = degradedBelow.length > 0 ? `, below its roots: ${degradedBelow.join('; ')}` : ''
  t.comment(`${name}: ${seconds(ms)}, ${updates} updates, ${degraded.length} times Degraded${below}`)
  const faults = [
    ...degraded.map((one) => `Degraded: ${one}`),
    ...(updates > 1 ? [] : ['nothing was seen of it']),
    ...(code === 0 ? [] : [`kas health: exit ${code}: ${said}`]),
  ]
  for (const fault of faults) t.comment(`${name}: ${fault}`)
  t.strictSame(faults, [], name)
}

/**
 * Asserts that the gate ended before the deadline with the reason.
 *
 * @returns prints the answer of `kubectl rollout status`, once it has come
 */
export async function tellBad(
  t: Test,
  { name, reason, says }: BadRollout,
  playing: Promise<PlayedBad>,
): Promise<(answer: (status: RolloutStatus) => Promise<string>) => Promise<void>> {
  const played = await settled(t, name, playing)
  if (!played) return async () => undefined
  const { code, ms, said, isPastDeadline, status } = played
  const missing = [new RegExp(`: ${reason}: `), ...says].filter((one) => !one.test(said))
  const faults = [
    ...(code === 4 ? [] : [`exit ${code}`]),
    ...(isPastDeadline ? ['not before the deadline'] : []),
    ...missing.map((one) => `it does not say ${one}`),
  ]
  t.strictSame(faults, [], faults.length > 0 ? `${name}: ${said}` : name)
  return async (answer) => {
    t.comment(`${name}: kas health: exit ${code} after ${seconds(ms)}; rollout status: ${await answer(status)}`)
  }
}

/** @returns undefined: it could not be played, which fails the test */
async function settled<Played>(t: Test, name: string, playing: Promise<Played>): Promise<Played | undefined> {
  try {
    return await playing
  } catch (error) {
    t.fail(`${name}: ${(error as Error).message}`, { error })
    return undefined
  }
}
