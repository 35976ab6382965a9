import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Warden } from '../../../dev/control-plane/warden.ts'

export const callKinds = ['create', 'exec-spdy', 'exec-websocket'] as const
export type CallKind = (typeof callKinds)[number]

/** How kubectl ended. */
export interface CallEnd {
  /** the name of the object, and the last word of the command */
  readonly identity: string
  readonly kind: CallKind
  /** exit status 0, and it said what it had done */
  readonly succeeded: boolean
  /** of kas' own errors: whether the request may have reached the cluster */
  readonly delivery: 'none' | 'maybe' | undefined
  /** kubectl itself sent the command again, by SPDY, because its WebSocket was answered by something else than 101 */
  readonly fellBack: boolean
  /** it did not end, and was killed */
  readonly hung: boolean
  /** what it said, without what it logs; for a message */
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

/** kas waits up to 20 s for an agent, and a replica is frozen for up to 12. ms */
const endTimeoutMs = 45_000
/** lines of requests, with the headers of their answers */
const verbosity = 8
const maxShown = 300

/** One kubectl that does something which must not happen twice. It repeats nothing of that by itself. */
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

/** Any kubectl, to its end. */
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

/** Of the last answer that has the header. */
function deliveryOf(log: string): CallEnd['delivery'] {
  const found = [...log.matchAll(/Kas-Delivery\W+(none|maybe)/gi)].at(-1)
  return found?.[1] as CallEnd['delivery']
}

/** What is said to people: klog's lines begin with a letter and a date, and those that follow are indented. */
function saidIn(log: string): string {
  return log
    .split('\n')
    .filter((line) => line !== '' && !/^[IWEF]\d{4} |^\s/.test(line))
    .join(' ')
}
