import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Warden } from '../../../dev/control-plane/warden.ts'

export const callKinds = ['create', 'exec-spdy', 'exec-websocket'] as const
export type CallKind = (typeof callKinds)[number]

/** Result of kubectl. */
export interface CallEnd {
  /** name of the object, or last word of the command */
  readonly identity: string
  readonly kind: CallKind
  /** the exit status was 0, and kubectl printed the result */
  readonly succeeded: boolean
  /**
   * `Kas-Delivery` of kas' last error: `maybe` if the request may have reached the cluster; undefined: no such error
   */
  readonly delivery: 'none' | 'maybe' | undefined
  /** kubectl itself sent the command again, by SPDY, because the answer to its WebSocket was not 101 */
  readonly fellBack: boolean
  /** it did not end, and was killed */
  readonly hung: boolean
  /** its messages without its log; for a failure's text */
  readonly error: string
}

export interface KubectlPlace {
  /** paths */
  readonly program: string
  readonly kubeconfig: string
  readonly cacheFolder: string
  readonly namespace: string
  readonly pod: string
}

/** kas waits up to 20 s for an agent, and a replica is frozen for up to 12 s. ms */
const endTimeoutMs = 45_000
/** logs lines of requests, with the headers of their answers */
const verbosity = 8
const maxShown = 300

/** Runs one kubectl whose request must not happen twice. kubectl by itself does not repeat it. */
export async function callKubectl(
  { warden }: { warden: Warden },
  place: KubectlPlace,
  call: { kind: CallKind; identity: string },
): Promise<CallEnd> {
  const { stdout, stderr, code, hung } = await runKubectl({ warden }, place, argumentsOf(place, call), {
    KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(call.kind === 'exec-websocket'),
  })
  const wanted = call.kind === 'create' ? `configmap/${call.identity} created\n` : `${call.identity} has run\n`
  return {
    ...call,
    succeeded: code === 0 && stdout === wanted,
    delivery: deliveryOf(stderr),
    fellBack: /RemoteCommand fallback/.test(stderr),
    hung,
    error: code === 0 && stdout === wanted ? '' : `exit status ${code}: ${stdout}${saidIn(stderr)}`.slice(0, maxShown),
  }
}

/** Runs any kubectl to its end. */
export async function runKubectl(
  { warden }: { warden: Warden },
  { program, kubeconfig, cacheFolder, namespace }: KubectlPlace,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ code: number; stdout: string; stderr: string; hung: boolean }> {
  const { PATH = '' } = process.env
  const child = spawn(program, [`--kubeconfig=${kubeconfig}`, `--namespace=${namespace}`, ...args], {
    env: { PATH, HOME: cacheFolder, KUBECACHEDIR: cacheFolder, ...environment, ...warden.environment },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  const group = child.pid as number
  warden.adopt(group)
  let hung = false
  const limit = setTimeout(() => {
    hung = true
    process.kill(-group, 'SIGKILL')
  }, endTimeoutMs)
  const [out, err] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()])
  const [code] = (await closed) as [number | null]
  clearTimeout(limit)
  warden.release(group)
  return { code: code ?? -1, stdout: out.join(''), stderr: err.join(''), hung }
}

function argumentsOf({ pod }: KubectlPlace, { kind, identity }: { kind: CallKind; identity: string }): string[] {
  if (kind === 'create') return ['create', 'configmap', identity, `--field-manager=${identity}`, `-v=${verbosity}`]
  return ['exec', pod, `-v=${verbosity}`, '--', 'sh', '-c', 'echo "$0" >> ran; echo "$0 has run"', identity]
}

/** Value of the header in the last answer that has it. */
function deliveryOf(log: string): CallEnd['delivery'] {
  const found = [...log.matchAll(/Kas-Delivery\W+(none|maybe)/gi)].at(-1)
  return found?.[1] as CallEnd['delivery']
}

/** Messages for people: lines of klog begin with a letter and a date, and the lines after them are indented. */
function saidIn(log: string): string {
  return log
    .split('\n')
    .filter((line) => line !== '' && !/^[IWEF]\d{4} |^\s/.test(line))
    .join(' ')
}
