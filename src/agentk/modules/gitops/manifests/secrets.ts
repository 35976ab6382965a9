import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, kindOf } from '../../../../kubernetes/object.ts'
import { ownerAnnotation } from './annotations.ts'

/**
 * Texts about Secrets. Rows, Events, logs and inventories show no key and no value of a Secret, and no value of its
 * annotations. A key is shown as `…`, a value as `***`.
 */

const hiddenKey = '…'
export const hiddenValue = '***'

/** True for a Secret. The kind counts in any case: a misspelt one is not served, and has the same content. */
export function isSecret({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): boolean {
  return group === '' && kind.toLowerCase() === 'secret'
}

export function isSecretObject(object: KubernetesObject): boolean {
  return kindOf(object).toLowerCase() === 'secret'
}

/** True for the path of a Secret in the API, or of all Secrets of a namespace. */
export function isSecretPath(path: string): boolean {
  return /^\/api\/v1\/namespaces\/[^/]+\/secrets(?:[/?]|$)/.test(path)
}

/** Value of `kind` in YAML, JSON or a template: a Secret, a list or a generator of Secrets, an alias, an expression. */
const secretKind =
  /\bkind\b["']?\s*:\s*(?:[&!]\S*\s+|#[^\n]*\n\s*)*(?:["']?secret(?:list|generator)?(?![\w-])|\*|"[^"\n]*\\|\{\{)/i
/** Further texts that make Secrets: a field of kustomize, and a template of a library chart. */
const secretMaker = /\bsecretGenerator\b|\b(?:include|template)\s+"[^"\n]*secrets?"/i

/** True if a text may be the source of a Secret: a file, or one of its documents, which perhaps cannot be parsed. */
export function mayMakeSecret(text: string): boolean {
  return secretKind.test(text) || secretMaker.test(text)
}

/** Fields of a Secret whose names are the API's. */
const knownField =
  /^\.?(?:apiVersion|kind|type|immutable|data|stringData|metadata(?:\.(?:name|generateName|namespace|labels|annotations|finalizers|ownerReferences))?)(?![\w-])/
/** Name of a label or an annotation in a path: `.example.com/name`, `[example.com/name]`. */
const metadataName = /^(?:\.[\w./-]{1,317}|\[[\w./-]{1,317}\])$/

/**
 * Returns the path of a field of a Secret without keys: `.data.…`, `data[…]`. Names of labels and annotations stay.
 *
 * @param field - as the API server writes it in conflicts (`.data.a`) and in causes (`data[a]`)
 */
export function secretField(field: string): string {
  const [known = ''] = knownField.exec(field) ?? []
  const rest = field.slice(known.length)
  if (rest === '') return field
  if (/\.(?:labels|annotations)$/.test(known) && metadataName.test(rest)) return field
  if (known === '') return rest.startsWith('.') ? `.${hiddenKey}` : hiddenKey
  return `${known}${rest.startsWith('[') ? `[${hiddenKey}]` : `.${hiddenKey}`}`
}

/** Returns the path of a field as texts show it. */
export function shownField(key: Pick<ObjectKey, 'group' | 'kind'>, field: string): string {
  return isSecret(key) ? secretField(field) : field
}

/** Returns the value of an annotation as texts show it. A Secret shows only agentk's own. */
export function shownAnnotation(isOfSecret: boolean, name: string, value: string): string {
  const isOwn = name === ownerAnnotation || name.startsWith('agent.gitlab.com/')
  return isOfSecret && !isOwn ? hiddenValue : value
}

/** Keys in texts about a Secret by earlier versions, perhaps cut: `data[a b]: Invalid value`, `.data.a (kubectl)`. */
const writtenKey = /(?<![\w.])(\.?(?:data|stringData))(\[.*?(?:\](?=: )|$)|\.[^\s,;()]+)/g
/** Reason that a webhook or a policy has given. */
const writtenReason = /(denied (?:the )?request: ).*/s

/** Replaces keys, and reasons of webhooks, in a text about a Secret that an earlier version of agentk has written. */
export function hideWritten(text: string): string {
  const hidden = (_: string, known: string, rest: string) => secretField(`${known}${rest}`)
  return text.replace(writtenReason, `$1${hiddenValue}`).replaceAll(writtenKey, hidden)
}
