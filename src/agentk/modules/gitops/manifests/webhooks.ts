import { keyName } from '../../../../kubernetes/key.ts'
import { at, entryAt, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import type { Manifest, ManifestProblem } from './manifest.ts'

const group = 'admissionregistration.k8s.io'
const kinds: ReadonlySet<string> = new Set(['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'])
/** Who writes the certificate into it. */
const injectors = [
  'cert-manager.io/inject-ca-from',
  'cert-manager.io/inject-ca-from-secret',
  'cert-manager.io/inject-apiserver-ca',
  'service.beta.openshift.io/inject-cabundle',
]
/** Hooks that a problem names. */
const maxHooks = 10

/**
 * Webhooks of a chart whose certificate only the chart's hooks would bring, and which refuse what they cannot be asked
 * about: where hooks are not run, all that they are asked about would be refused.
 *
 * @param hooks - of the chart, that are not run
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
  if (injectors.some((name) => entryAt(object, 'metadata.annotations', name) !== '')) return false
  return listAt(object, 'webhooks').some(
    (webhook) =>
      textAt(webhook, 'failurePolicy') !== 'Ignore' &&
      at(webhook, 'clientConfig.service') !== undefined &&
      textAt(webhook, 'clientConfig.caBundle') === '',
  )
}
