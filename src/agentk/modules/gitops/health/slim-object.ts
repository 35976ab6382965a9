import { at, type KubernetesObject } from '../../../../kubernetes/object.ts'

/**
 * Limit of all objects that are kept to explain why others are not healthy, as JSON, in characters. Parsed, they take some
 * three times as much.
 */
export const maxExplainedChars = 12 * 1024 * 1024
/** The same for one namespace, so that the objects of one tenant leave room for others. */
export const maxNamespaceChars = maxExplainedChars / 8
/** The same for one object: more than rules read of any. */
export const maxObjectChars = 64 * 1024

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** Returns an object with its kind, which objects of a list lack, and without large parts that rules do not read. */
export function slimObject(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  object: KubernetesObject,
): KubernetesObject {
  const { managedFields: _, annotations, ...metadata } = (at(object, 'metadata') ?? {}) as Record<string, unknown>
  const { [lastApplied]: __, ...kept } = (annotations ?? {}) as Record<string, unknown>
  return { ...object, apiVersion, kind, metadata: { ...metadata, annotations: kept } }
}

/** Returns the size of an object as JSON, in characters. */
export const sizeOf = (object: KubernetesObject) => JSON.stringify(object).length
