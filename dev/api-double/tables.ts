import type { KubeObject } from './kube-object.ts'
import type { Resource } from './resources.ts'

/** Form of objects for a client: unchanged, as a Table that the server lays out, or their metadata alone. */
export type Shape = 'object' | 'table' | 'metadata'

export interface TableOptions {
  readonly includeObject: string
  readonly now: number
  readonly version: string
  /** sends the columns; a watch does so with its first event only */
  readonly columns: boolean
}

/** Parses `Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json`: the first supported range. */
export function shapeOf(accept: string | undefined): Shape {
  for (const range of (accept ?? '').split(',')) {
    const [type, ...rest] = range.split(';').map((part) => part.trim())
    if (type !== 'application/json' && type !== '*/*' && type !== 'application/*') continue
    const as = rest.find((parameter) => parameter.startsWith('as='))?.slice(3)
    if (as === undefined) return 'object'
    if (as === 'Table') return 'table'
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') return 'metadata'
  }
  return 'object'
}

/** Returns a `meta.k8s.io/v1` Table of `objects`. */
export function tableOf(resource: Resource, objects: readonly KubeObject[], options: TableOptions) {
  const columnDefinitions = resource.columns.map((column) => ({
    name: column.name,
    type: column.type,
    format: column.name === 'Name' ? 'name' : '',
    description: column.name,
    priority: column.priority ?? 0,
  }))
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion: options.version },
    columnDefinitions: options.columns ? columnDefinitions : null,
    rows: objects.map((object) => ({
      cells: resource.columns.map((column) => column.value(object, options.now) ?? ''),
      ...rowObject(object, options.includeObject),
    })),
  }
}

function rowObject(object: KubeObject, includeObject: string): { object?: unknown } {
  if (includeObject === 'None') return {}
  return { object: includeObject === 'Object' ? object : metadataOf(object) }
}

export function metadataOf(object: KubeObject) {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata }
}
