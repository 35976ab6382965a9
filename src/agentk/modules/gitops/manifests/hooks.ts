import { keyName } from '../../../../kubernetes/key.ts'
import { at, entryAt, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { certificateInjectors } from './injected-fields.ts'
import type { Hook, Manifest, ManifestProblem } from './manifest.ts'
import { isSecretObject, shownAnnotation } from './secrets.ts'

/** Events of hooks for which agentk makes no object: failure, deletion, rollback, test; `Skip`: no tool runs it. */
const neverRun: Readonly<Record<string, ReadonlySet<string>>> = {
  'argocd.argoproj.io/hook': new Set(['SyncFail', 'PreDelete', 'PostDelete', 'Skip']),
  'helm.sh/hook': new Set([
    'pre-delete',
    'post-delete',
    'pre-rollback',
    'post-rollback',
    'test',
    'test-success',
    'test-failure',
  ]),
}

/** @returns undefined: it is no hook */
export function hookOf(object: KubernetesObject): Hook | undefined {
  for (const [annotation, never] of Object.entries(neverRun)) {
    const value = entryAt(object, 'metadata.annotations', annotation)
    const events = value
      .split(',')
      .map((event) => event.trim())
      .filter(Boolean)
    if (events.length === 0) continue
    const isSkipped = events.includes('Skip') || events.every((event) => never.has(event))
    const shown = shownAnnotation(isSecretObject(object), annotation, events.join(', '))
    return { text: `${annotation}: ${shown}`, isMade: !isSkipped }
  }
  return undefined
}

const group = 'admissionregistration.k8s.io'
const kinds: ReadonlySet<string> = new Set(['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'])
/** Limit of hooks in a problem. */
const maxHooks = 10

/**
 * Returns the webhooks whose certificate only hooks of the chart would bring, and that refuse requests without it.
 * While these hooks are not run, the webhooks would refuse all requests that they are asked about.
 *
 * @param hooks - hooks of the chart that agentk does not run
 */
export function webhooksOfHooks(manifests: readonly Manifest[], hooks: readonly string[]): ManifestProblem[] {
  if (hooks.length === 0) return []
  const more = hooks.length > maxHooks ? `, and ${hooks.length - maxHooks} more` : ''
  const named = `${hooks.slice(0, maxHooks).join(', ')}${more}`
  return manifests.flatMap((manifest) => {
    const { key, file, line } = manifest
    if (key.group !== group || !kinds.has(key.kind) || !lacksCertificate(manifest.object)) return []
    const text =
      `${keyName(key)}: only hooks of the chart bring its certificate (${named}), and they are not run: all that it is ` +
      'asked about would be refused. helm: { hooks: skip } applies it all the same'
    return [{ file, line, text }]
  })
}

function lacksCertificate(object: KubernetesObject): boolean {
  if (certificateInjectors.some((name) => entryAt(object, 'metadata.annotations', name) !== '')) return false
  return listAt(object, 'webhooks').some(
    (webhook) =>
      textAt(webhook, 'failurePolicy') !== 'Ignore' &&
      (at(webhook, 'clientConfig.service') ?? undefined) !== undefined &&
      textAt(webhook, 'clientConfig.caBundle') === '',
  )
}
