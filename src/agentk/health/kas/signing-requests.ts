import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'

/** Time in which a signer that runs signs. ms */
const signedMs = 5 * minute

/** Judges a CertificateSigningRequest: somebody has to approve it, and then its signer signs. */
export function signingRequest(object: KubernetesObject, { now }: Around): Finding | undefined {
  if (textAt(object, 'status.certificate') !== '') return undefined
  const conditions = conditionsAt(object, now).filter(({ status }) => status === 'True')
  const of = (name: string) => conditions.find(({ type }) => type === name)
  const rank = ranks.other
  const bad = of('Denied') ?? of('Failed')
  if (bad) {
    const { type, reason, message, since } = bad
    return found(object, now, { reason: reason || type, text: message || type, rank, since, grace: 0 })
  }
  const signer = textAt(object, 'spec.signerName')
  const approved = of('Approved')
  if (approved) {
    const text = `it is approved, and signer ${signer} has not signed it`
    return found(object, now, { reason: 'NotSigned', text, rank, since: approved.since, grace: signedMs })
  }
  const text = `nobody has approved it, for signer ${signer}`
  return found(object, now, { reason: 'Pending', text, rank, since: createdOf(object, now), grace: undefined })
}
