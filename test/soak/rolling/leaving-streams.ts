import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Findings } from '../scene.ts'
import type { Leave } from './ends.ts'
import { FollowedLog, followByKubectl, followPlainly } from './followed-log.ts'
import { type Restart, type RollingGraces, type RollingStage, restart, seconds } from './restart.ts'
import type { RollingGround } from './rolling-ground.ts'
import { RollingLoad } from './rolling-load.ts'
import { TypedExec } from './typed-exec.ts'

export interface LeavingStreamsOptions {
  /** calls begun each second */
  readonly calls: number
  readonly watches: number
  /** life of each exec until its user ends it and begins another. ms */
  readonly execLivesMs: readonly number[]
  /** limits of running calls; no call here needs them */
  readonly graces: RollingGraces & { readonly watchMs: number }
  /** as in `rolling` */
  readonly calmMs: number
  /** value of KUBEBUILDER_ASSETS: with kubectl there, kubectl follows a log too */
  readonly assets: string | undefined
}

/** time for all streams to begin. ms */
const openMs = 60_000
/** time for a replica with nothing left to wait for to end, on a busy machine. ms */
const endMs = 10_000
/** delay until an end is noticed. ms */
const noticeMs = 2000
const clock = { namespace: 'demo', pod: 'clock' }
const echo = { namespace: 'demo', pod: 'echo' }

/**
 * Restarts replicas of a cluster double one after the other, under watches, execs that end by themselves, and followed
 * logs. Each replica ends within the lives of the execs and the grace of the watches, however long its shutdown grace
 * is.
 */
export async function leavingStreams(stage: RollingStage, options: LeavingStreamsOptions): Promise<Findings> {
  const { ground, say, signal } = stage
  const { access } = ground
  const { calls, watches, execLivesMs, graces, calmMs } = options
  const load = new RollingLoad({ access, calls, watches, execs: 0, namespace: 'default', pod: echo })
  const execs = execLivesMs.map((lifeMs) => new TypedExec(access, { ...echo, lifeMs }))
  const folder = await mkdtemp(join(tmpdir(), 'leaving-'))
  const logs = await logsOf(ground, folder, options.assets)
  const restarts: Restart[] = []
  try {
    const begin = AbortSignal.any([signal, AbortSignal.timeout(openMs)])
    await Promise.all([load, ...execs, ...logs].map((each) => each.start(begin)))
    say(
      `${watches} watches, ${execs.length} execs that end, ${logs.length} followed logs; ${calls} calls begin each second`,
    )
    await delay(calmMs, signal)
    for (const replica of ground.replicas) {
      const restarted = await restart(stage, replica, graces)
      restarts.push(restarted)
      say(restarted.text)
      await delay(calmMs, signal)
    }
  } finally {
    await Promise.all([load, ...execs, ...logs].map((each) => each.stop()))
    await rm(folder, { recursive: true, force: true })
  }
  const leaves = restarts.map(({ leave }) => leave)
  const boundMs = Math.max(graces.watchMs, ...execLivesMs)
  return {
    figures: [
      ...leaves.map((leave) => textOf(leave, { load, logs, graces })),
      ...load.callFigures(),
      `${execs.length} execs: ${sum(execs.map(({ completed }) => completed))} ended by their users, ` +
        `${sum(execs.map(({ ends }) => ends.length))} by kas; ${sum(execs.map(({ echoes }) => echoes))} lines came back`,
      ...logs.map(({ name, lines, ends }) => `${name}: ${lines} lines; ${ends.map(({ how }) => how).join(' | ')}`),
    ],
    failures: [
      ...load.failures(leaves),
      ...restarts.flatMap(({ failures }) => failures),
      ...leaves
        .filter(({ listenEndsAt, exitedAt }) => exitedAt - listenEndsAt > boundMs + endMs)
        .map(
          ({ replica, listenEndsAt, exitedAt }) =>
            `${replica} ended ${seconds(listenEndsAt, exitedAt)} behind its listen grace`,
        ),
      ...load.watchEnds.filter(({ inOrder }) => !inOrder).map(() => 'a watch was cut'),
      ...execs.flatMap(({ ends, failures }) => [...failures, ...ends.map(() => 'an exec was ended by kas')]),
      ...logs.flatMap(({ name, ends }) => ends.flatMap((end) => wrongEnd(name, end, { leaves, graces }))),
    ],
  }
}

async function logsOf({ access }: RollingGround, folder: string, assets: string | undefined): Promise<FollowedLog[]> {
  const path = `/api/v1/namespaces/${clock.namespace}/pods/${clock.pod}`
  const plain = new FollowedLog('a followed log', followPlainly(access, path))
  const program = join(assets ?? '', 'kubectl')
  if (!assets || !existsSync(program)) return [plain]
  const [kubeconfig, cacheFolder] = [join(folder, 'kubeconfig'), join(folder, 'cache')]
  await mkdir(cacheFolder)
  const { server, ca: authority, credential: token } = access
  await writeFile(kubeconfig, kubeconfigText({ server, authority, user: { token } }), { mode: 0o600 })
  return [plain, new FollowedLog('kubectl logs -f', followByKubectl(program, { kubeconfig, cacheFolder }, clock))]
}

type Graces = LeavingStreamsOptions['graces']

/** Returns a description of a log's wrong end: a log must be cut, after the grace of watches. */
function wrongEnd(
  name: string,
  { at, inOrder, how }: FollowedLog['ends'][number],
  { leaves, graces }: { leaves: readonly Leave[]; graces: Graces },
): string[] {
  const isDue = leaves.some(({ listenEndsAt, exitedAt }) => {
    return at >= listenEndsAt + graces.watchMs && at <= Math.max(exitedAt, listenEndsAt + graces.watchMs) + noticeMs
  })
  return [
    ...(inOrder ? [`${name} ended as if it were whole: ${how}`] : []),
    ...(isDue ? [] : [`${name} ended though nothing was due: ${how}`]),
  ]
}

function textOf(
  { replica, listenEndsAt, exitedAt }: Leave,
  { load, logs, graces }: { load: RollingLoad; logs: readonly FollowedLog[]; graces: Graces },
): string {
  const ofIt = ({ at }: { at: number }) => at >= listenEndsAt && at <= exitedAt + noticeMs
  const ends = load.watchEnds.filter(ofIt).map(({ at }) => at)
  const inSeconds =
    ends.length > 0
      ? ` from ${seconds(listenEndsAt, Math.min(...ends))} to ${seconds(listenEndsAt, Math.max(...ends))}`
      : ''
  const cut = logs.flatMap(({ name, ends }) =>
    ends.filter(ofIt).map(({ at }) => `${name} after ${seconds(listenEndsAt, at)}`),
  )
  return (
    `${replica}, behind its listen grace: ${ends.length} watches ended in order${inSeconds}; ` +
    `cut: ${cut.join(', ') || 'nothing'}; ended after ${seconds(listenEndsAt, exitedAt)} (shutdown grace ${graces.shutdownMs / 1000} s)`
  )
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
