import { parseApiVersion } from '../../../../kubernetes/kind.ts'
import { maxObjectBytes } from '../../../../proto/gitops/limits.ts'
import { withoutInjected } from './injected-fields.ts'
import type { ObjectTree } from './manifest.ts'
import type { Document } from './read-yaml.ts'
import { isSecret, secretField } from './secrets.ts'

/** Object of a document in the form that the API server has to keep. Its names are checked, its scope is not. */
export interface NormalObject {
  readonly group: string
  readonly version: string
  readonly kind: string
  /** as in the document; empty: none */
  readonly namespace: string
  readonly name: string
  /** the object, as JSON */
  readonly json: Uint8Array
}

/** Metadata that only the server sets, or that another client has set. */
const serverMetadata = [
  'creationTimestamp',
  'deletionGracePeriodSeconds',
  'deletionTimestamp',
  'generation',
  'managedFields',
  'resourceVersion',
  'selfLink',
  'uid',
]
export const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
const localConfig = 'config.kubernetes.io/local-config'
const kustomizeGroup = 'kustomize.config.k8s.io'
export const kustomizationFile = /(?:^|\/)(?:kustomization\.ya?ml|Kustomization)$/
/** Label of the stock agent's inventory. A repository may contain it; it is no object of the source. */
const stockInventoryLabel = 'cli-utils.sigs.k8s.io/inventory-id'

/**
 * Removes the server's fields from an object's metadata, and moves `stringData` of a Secret to `data`. Otherwise a key
 * that is left out later would stay. Nulls stay, as `kubectl apply --server-side` sends them.
 *
 * @returns a text: the problem; undefined: it is no object of the cluster
 */
export function normalObject({ object, file }: Document): NormalObject | string | undefined {
  const { apiVersion, kind, metadata } = object
  const isKustomization = kustomizationFile.test(file) && kind === undefined
  if (isKustomization || groupOf(apiVersion) === kustomizeGroup) return undefined
  if (typeof kind !== 'string' || !kindForm.test(kind)) return fieldProblem('kind', kind)
  if (typeof apiVersion !== 'string' || !apiVersionForm.test(apiVersion)) return fieldProblem('apiVersion', apiVersion)
  if (!isMap(metadata)) return 'no metadata'
  const { annotations, labels, name, namespace = null, generateName } = metadata
  const problem = textsProblem('labels', labels) ?? textsProblem('annotations', annotations)
  if (problem) return problem
  if (isLocal(annotations) || (isMap(labels) && stockInventoryLabel in labels)) return undefined
  if (typeof name !== 'string' || !nameForm.test(name) || name === '.' || name === '..') {
    return generateName === undefined || name !== undefined
      ? fieldProblem('metadata.name', name)
      : 'generateName: an object needs a name'
  }
  if (namespace !== null && (typeof namespace !== 'string' || !namespaceForm.test(namespace))) {
    return fieldProblem('metadata.namespace', namespace)
  }
  const secret = isSecret({ group: groupOf(apiVersion), kind }) ? encoded(object) : object
  if (typeof secret === 'string') return secret
  const normal = withoutInjected({ ...secret, metadata: keptMetadata(metadata) })
  const json = Buffer.from(JSON.stringify(normal))
  if (json.length > maxObjectBytes) return `the object is too large: ${json.length} of ${maxObjectBytes} bytes`
  const group = groupOf(apiVersion)
  const version = group ? apiVersion.slice(group.length + 1) : apiVersion
  return { group, version, kind, namespace: namespace ?? '', name, json }
}

// forms of texts that become part of a path, or of a key with slashes
const kindForm = /^[A-Za-z][A-Za-z0-9]{0,62}$/
const apiVersionForm = /^(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?\/)?[a-z0-9][-a-z0-9]{0,62}$/
const nameForm = /^[^/%\s]{1,253}$/
const namespaceForm = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/

const base64Form = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

function groupOf(apiVersion: unknown): string {
  return typeof apiVersion === 'string' ? parseApiVersion(apiVersion).group : ''
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** characters of a value that are shown */
const maxShown = 100
/** Words that YAML 1.1 reads as a boolean, though the writer may mean text. */
const booleanWords = { true: 'y, yes and on', false: 'n, no and off' } as const

function fieldProblem(field: string, value: unknown): string {
  if (value === undefined || value === null || value === '') return `${field} is missing`
  // a map or a list is perhaps the content of a Secret in a wrong place
  if (typeof value === 'object') return `${field} is a ${Array.isArray(value) ? 'list' : 'map'}, not text`
  const shown = JSON.stringify(value).slice(0, maxShown)
  if (typeof value === 'string') return `${field} ${shown} has characters that are not allowed there, or is too long`
  const words = booleanWords[String(value) as 'true']
  return `${field} is ${shown}, not text: quote it${words ? ` (YAML 1.1 reads ${words} so)` : ''}`
}

function textsProblem(key: string, texts: unknown): string | undefined {
  if (texts === undefined || texts === null) return undefined
  if (!isMap(texts)) return `metadata.${key} is no map`
  const other = Object.entries(texts).find(([, value]) => typeof value !== 'string' && value !== null)
  return other && `metadata.${key}: ${other[0]} is no text: write it in quotes`
}

function isLocal(annotations: unknown): boolean {
  const value = isMap(annotations) ? annotations[localConfig] : undefined
  return typeof value === 'string' && value !== 'false'
}

function encoded({ stringData, ...secret }: ObjectTree): ObjectTree | string {
  const isNoBase64 = (value: unknown) => typeof value === 'string' && !base64Form.test(value.replaceAll(/[\r\n]/g, ''))
  const bad = isMap(secret.data) && Object.entries(secret.data).find(([, value]) => isNoBase64(value))
  if (bad && secret.sops === undefined) {
    return `${secretField(`data.${bad[0]}`)} is no base64: write it so, or as stringData`
  }
  if (stringData === undefined || stringData === null) return secret
  if (!isMap(stringData)) return 'stringData is no map'
  if (Object.keys(stringData).length === 0) return secret // an empty map does not mean that `data` is empty
  const data: Record<string, unknown> = { ...(isMap(secret.data) ? secret.data : {}) }
  for (const [key, value] of Object.entries(stringData)) {
    if (value !== null && typeof value !== 'string') {
      return `${secretField(`stringData.${key}`)} is no text: write it in quotes`
    }
    data[key] = Buffer.from(value ?? '').toString('base64')
  }
  return { ...secret, data }
}

function keptMetadata(metadata: Record<string, unknown>): Record<string, unknown> {
  const kept = Object.fromEntries(Object.entries(metadata).filter(([key]) => !serverMetadata.includes(key)))
  if (!isMap(kept.annotations) || !(lastApplied in kept.annotations)) return kept
  const { [lastApplied]: _, ...annotations } = kept.annotations
  return { ...kept, annotations }
}
