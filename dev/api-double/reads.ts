import type { KubeObject } from './kube-object.ts'
import type { RequestTarget } from './request-target.ts'
import { apiVersionOf } from './resources.ts'
import { parseSelectors } from './selectors.ts'
import type { Store } from './store.ts'
import { metadataOf, type Shape, tableOf } from './tables.ts'

/**
 * Returns the answer to a GET of one object or of a list. `limit` is ignored: the store is small.
 *
 * @throws StatusError 400, 404
 */
export function readDocument(store: Store, target: RequestTarget, shape: Shape, now: number): unknown {
  const { resource, namespace, name } = target
  if (name === undefined) {
    const objects = store.list(resource, namespace).filter(parseSelectors(target.query))
    return listDocument(target, objects, { shape, now, version: String(store.version) })
  }
  const object = store.get({ resource, namespace, name })
  if (shape === 'metadata') return metadataOf(object)
  if (shape === 'object') return object
  return listDocument(target, [object], { shape, now, version: object.metadata.resourceVersion ?? '' })
}

function listDocument(
  { resource, query }: RequestTarget,
  objects: readonly KubeObject[],
  { shape, now, version }: { shape: Shape; now: number; version: string },
): unknown {
  const metadata = { resourceVersion: version }
  switch (shape) {
    case 'table':
      return tableOf(resource, objects, {
        includeObject: query.get('includeObject') ?? 'Metadata',
        now,
        version,
        columns: true,
      })
    case 'metadata':
      return {
        kind: 'PartialObjectMetadataList',
        apiVersion: 'meta.k8s.io/v1',
        metadata,
        items: objects.map(metadataOf),
      }
    case 'object':
      return { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items: objects }
  }
}
