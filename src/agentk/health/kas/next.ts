import type { Cause } from './choice/choosing.ts'
import { isNotReady } from './nodes.ts'
import { quotaNameOf } from './quotas.ts'
import { webhookKinds } from './webhooks.ts'

/** characters of a command */
const maxNext = 200

/** Reasons of containers that have ended: what they said last stands in the log of the life before. */
const crashes: ReadonlySet<string> = new Set([
  'CrashLoopBackOff',
  'OOMKilled',
  'PostStartHookError',
  'LivenessProbeFailed',
  'StartupProbeFailed',
])
/** Reasons of Pods whose end is the last. */
const ends: ReadonlySet<string> = new Set(['NonZeroExit', 'Failed', 'Evicted'])
const foundations: ReadonlySet<string> = new Set(['Node', 'apiregistration.k8s.io/APIService', ...webhookKinds])

type Shown = Pick<Cause, 'kind' | 'namespace' | 'name' | 'reason' | 'about'> & Partial<Pick<Cause, 'text'>>

/** What to read next of a cause, as a command that only reads. */
export function nextOf(cause: Shown): string {
  const { kind, namespace, name, reason } = cause
  const words = ['kubectl', ...(namespace === '' ? [] : ['-n', namespace]), ...commandOf(cause)]
  const command = words.join(' ')
  const areNamed = [kind, name, namespace || name].every(isNamed)
  return command.length <= maxNext && areNamed && reason !== '' ? command : ''
}

function commandOf({ kind, name, reason, about, text = '' }: Shown): readonly string[] {
  if (reason === 'DeletionBlocked') return ['get', resourceOf(kind), name, '-o', 'jsonpath={.metadata.finalizers}']
  if (foundations.has(kind) || isNotReady(reason)) return ['describe', resourceOf(kind), name]
  if (kind === 'Pod') return ofPod(name, reason, about)
  if (reason === 'QuotaExceeded') return ofQuota(text)
  return ['describe', resourceOf(kind), name]
}

function ofPod(name: string, reason: string, container: string): readonly string[] {
  const of = isNamed(container) ? ['-c', container] : []
  if (crashes.has(reason)) return ['logs', name, ...of, '--previous']
  if (reason === 'ReadinessProbeFailed') return ['logs', name, ...of, '--since=5m']
  return ends.has(reason) && of.length > 0 ? ['logs', name, ...of] : ['describe', 'pod', name]
}

/** By the quota that the API server names. */
function ofQuota(text: string): readonly string[] {
  const quota = quotaNameOf(text)
  return quota === undefined ? ['describe', 'resourcequota'] : ['describe', 'resourcequota', quota]
}

/** As kubectl takes it: `deployment.apps`, `pod`. */
function resourceOf(kind: string): string {
  const slash = kind.indexOf('/')
  const name = kind.slice(slash + 1).toLowerCase()
  return slash < 0 ? name : `${name}.${kind.slice(0, slash)}`
}

/** A word that needs no quotes. */
const isNamed = (text: string) => /^[A-Za-z0-9][A-Za-z0-9./:_-]*$/.test(text)
