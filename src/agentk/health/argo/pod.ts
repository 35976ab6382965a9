import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, listAt, numberAt, textAt } from '../../../kubernetes/object.ts'
import { type ArgoRule, degraded, healthy, progressing, unknown } from './health.ts'

/** Annotation of a Pod that is no hook: the Pod is judged as one that always restarts. */
const ignoreRestartPolicy = 'argocd.argoproj.io/ignore-restart-policy'
const hookAnnotations = ['argocd.argoproj.io/hook', 'helm.sh/hook']

/** True for a reason with which a container waits that will not start by itself. */
const isFailing = (reason: string) => reason.startsWith('Err') || reason.endsWith('Error') || reason.endsWith('BackOff')

export const pod: ArgoRule = (object) => {
  const restarts = alwaysRestarts(object)
  const containers = listAt(object, 'status.containerStatuses')
  if (restarts) {
    const failing = containers.filter((container) => isFailing(textAt(container, 'state.waiting.reason')))
    if (failing.length > 0) return degraded(failing.map((one) => textAt(one, 'state.waiting.message')).join(', '))
  }
  const message = textAt(object, 'status.message')
  switch (textAt(object, 'status.phase')) {
    case 'Pending':
      return progressing(message)
    case 'Succeeded':
      return healthy(message)
    case 'Failed':
      return degraded(message || failureOf([...listAt(object, 'status.initContainerStatuses'), ...containers]))
    case 'Running':
      if (!restarts) return progressing(message) // a Pod that does not always restart progresses to its end
      if (isReady(object)) return healthy(message)
      return containers.some((container) => hasEndedBefore(container)) ? degraded(message) : progressing(message)
    default:
      return unknown(message)
  }
}

function alwaysRestarts(object: KubernetesObject): boolean {
  if (textAt(object, 'spec.restartPolicy') === 'Always') return true
  const annotations = annotationsOf(object)
  if (hookAnnotations.some((name) => annotations[name] !== undefined)) return false
  return annotations[ignoreRestartPolicy] === 'true'
}

function annotationsOf({ metadata }: KubernetesObject): Readonly<Record<string, unknown>> {
  return (metadata as { annotations?: Record<string, unknown> } | undefined)?.annotations ?? {}
}

function isReady(object: KubernetesObject): boolean {
  return conditionsOf(object).some(({ type, status }) => type === 'Ready' && status === 'True')
}

function hasEndedBefore(container: KubernetesObject): boolean {
  return at(container, 'lastState.terminated') !== undefined
}

/** Returns the failure of the first container that states one; '': none does. */
function failureOf(containers: readonly KubernetesObject[]): string {
  for (const container of containers) {
    const message = textAt(container, 'state.terminated.message')
    if (message) return message
    if (textAt(container, 'state.terminated.reason') === 'OOMKilled') return 'OOMKilled'
    const code = numberAt(container, 'state.terminated.exitCode') ?? 0
    if (code !== 0) return `container "${textAt(container, 'name')}" failed with exit code ${code}`
  }
  return ''
}
