import { type KubernetesObject, listField, namespaceOf, textAt, textField } from '../../../../kubernetes/object.ts'
import { type Evidence, newest } from '../evidence.ts'
import { type Finding, found, minute, ranks } from '../finding.ts'
import { searched } from '../text.ts'
import { type Container, fromOf, type PodContext, waitingOf } from './container.ts'

const pullReasons: ReadonlySet<string> = new Set(['ErrImagePull', 'ImagePullBackOff', 'RegistryUnavailable'])
/** Reasons that stay until somebody changes the Pod or the node. */
const brokenReasons: ReadonlySet<string> = new Set([
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'SignatureValidationFailed',
])
/** reasons that come from a registry's answer */
const answeredReasons: ReadonlySet<string> = new Set(['ImagePullDenied', 'ImageNotFound', 'RegistryUnavailable'])

/** Time in which a registry may come back. ms */
const registryMs = 2 * minute

/** Judges a container that waits for its image. */
export function imageOf(context: PodContext, container: Container): Finding | undefined {
  const waiting = waitingOf(container)
  if (!waiting) return undefined
  const { pod, now } = context
  const base = { rank: ranks.container, since: context.since, about: container.name }
  const own = textField(container.spec, 'image') || textField(container.status, 'image')
  const { image, of } = pulledImage(pod, own, waiting.message)
  if (brokenReasons.has(waiting.reason)) {
    const text = `container ${container.name}: image ${image}${of}: ${waiting.message}`
    return found(pod, now, { ...base, reason: waiting.reason, text, grace: 0 })
  }
  if (!pullReasons.has(waiting.reason)) return undefined
  const { answer, isOfEvent, kept } = answerOf(context, container, waiting)
  const reason = kept?.reason ?? reasonOf(answer, image, waiting.reason)
  const text =
    kept?.text ??
    `container ${container.name}: image ${image}${of}: ${shortened(answer, image) || waiting.message || waiting.reason}`
  const secret = refusedReasons.has(reason) ? unreadSecret(context.evidence) : ''
  const isBySecret = secret !== '' && !text.endsWith(secret)
  return found(pod, now, {
    ...base,
    reason,
    text: isBySecret ? `${text}${secret}` : text,
    grace: refusedReasons.has(reason) ? 0 : registryMs,
    from: fromOf(context, container),
    needs: kept && !isBySecret ? kept.needs : isOfEvent || isBySecret ? [['Event', namespaceOf(pod)]] : [],
  })
}

/** Returns the image that the kubelet names. For a volume it is none of the container's own. */
function pulledImage(pod: KubernetesObject, own: string, message: string): { image: string; of: string } {
  const named = /(?:pulling|pull|unpack) image "([^"]{1,1024})"/.exec(searched(message))?.[1]
  if (named === undefined || named === own) return { image: own, of: '' }
  const volume = listField(pod.spec, 'volumes').find((one) => textAt(one, 'image.reference') === named)
  return volume ? { image: named, of: ` (of volume ${textField(volume, 'name')})` } : { image: own, of: '' }
}

/** Reasons for which a registry shows no image without the right secret. */
const refusedReasons: ReadonlySet<string> = new Set(['ImagePullDenied', 'ImageNotFound'])
const unread = /^Unable to retrieve some image pull secrets \(([a-z0-9.-]{1,253})/

/** Text about the pull secret that the kubelet could not read, behind the registry's answer; '': no event names one. */
function unreadSecret(evidence: readonly Evidence[]): string {
  const event = newest(evidence.filter(({ reason }) => reason === 'FailedToRetrieveImagePullSecret'))
  const name = event && unread.exec(event.message)?.[1]
  return name ? `; pull secret ${name} cannot be read` : ''
}

/** @param text - text of a finding */
export const unreadSecretOf = (text: string) => /; pull secret ([a-z0-9.-]{1,253}) cannot be read$/.exec(text)?.[1]

interface Answer {
  /** '': it is not known */
  readonly answer: string
  readonly isOfEvent?: boolean
  /** earlier finding on the same pull, which is still true */
  readonly kept?: Finding
}

/** Text before the registry's answer since Kubernetes 1.32. */
const answered = /^Back-off pulling image "[^"]*": \w+: /
const backOff = /^Back-off pulling image "[^"]*"$/
const pulled = /^Failed to pull image "[^"]*": /

function answerOf(context: PodContext, container: Container, waiting: { reason: string; message: string }): Answer {
  const message = searched(waiting.message)
  if (answered.test(message)) return { answer: message.replace(answered, '') }
  if (message !== '' && !backOff.test(message)) return { answer: message }
  const { before, evidence } = context
  if (before && before.about === container.name && answeredReasons.has(before.reason))
    return { answer: '', kept: before }
  const event = newest(evidence.filter((one) => isPull(one, container.name)))
  return event ? { answer: event.message.replace(pulled, ''), isOfEvent: true } : { answer: '' }
}

/** Texts that runtimes write before the registry's answer. Each repeats the image. */
const parts = [
  /^rpc error: code = \w+ desc = /,
  /^failed to pull and unpack image "[^"]*": /,
  /^failed to resolve reference "[^"]*": /,
]

/** Removes the parts of the registry's answer that repeat the image. */
function shortened(answer: string, image: string): string {
  const bare = parts.reduce((text, before) => text.replace(before, ''), answer)
  return image !== '' && bare.startsWith(`${image}: `) ? bare.slice(image.length + 2) : bare
}

function isPull({ reason, message, container }: Evidence, name: string): boolean {
  return reason === 'Failed' && pulled.test(message) && (container === '' || container === name)
}

const unreachable =
  /\blookup |no such host|dial tcp|i\/o timeout|timed? ?out\b|deadline exceeded|refused|no route to host|unreachable|connection reset/i
const tooMany = /\b429\b|too ?many ?requests/i
const denied = /\b40[13]\b|(?<!permission )\bdenied\b|unauthorized|forbidden/i
const notFound = /\b404\b|not ?found|(?:manifest|name)[ _]unknown/i
const serverError = /\b5\d\d\b|service unavailable|bad gateway|internal server error/i

/** Returns a reason by the registry's answer, not by numbers in names of images and addresses. */
function reasonOf(answer: string, image: string, waiting: string): string {
  const bare = withoutNames(answer, image)
  if (unreachable.test(bare) || tooMany.test(bare)) return 'RegistryUnavailable'
  if (denied.test(bare)) return 'ImagePullDenied'
  if (notFound.test(bare)) return 'ImageNotFound'
  return serverError.test(bare) || waiting === 'RegistryUnavailable' ? 'RegistryUnavailable' : 'ImagePullFailed'
}

function withoutNames(answer: string, image: string): string {
  const bare = image === '' ? answer : answer.replaceAll(image, '')
  return bare
    .replaceAll(/"[^"]*"/g, '')
    .replaceAll(/https?:\/\/\S+/g, '')
    .replaceAll(/sha256:[0-9a-f]+/g, '')
    .replaceAll(/(?:localhost|\b[\w-]{1,63}\.[\w.-]{1,253}):\d+/g, '')
}
