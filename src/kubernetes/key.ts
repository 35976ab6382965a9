/** Identity of an object, without the version of its group. */
export interface ObjectKey {
  /** empty: the core group */
  readonly group: string
  readonly kind: string
  /** empty: cluster-wide */
  readonly namespace: string
  readonly name: string
}

/** Formats `group/Kind/namespace/name`, for maps and for sorting. */
export function keyText({ group, kind, namespace, name }: ObjectKey): string {
  return `${group}/${kind}/${namespace}/${name}`
}

/** Formats the key for people: `Deployment shop/web`, `Namespace shop`, `Certificate.cert-manager.io shop/tls`. */
export function keyName({ group, kind, namespace, name }: ObjectKey): string {
  return `${kind}${group && `.${group}`} ${namespace && `${namespace}/`}${name}`
}

/** Key of an object in maps. @param kind - as `kindKey` writes it */
export function placeKey(kind: string, namespace: string, name: string): string {
  return [kind, namespace, name].join('\n') // one flat string: a template literal would keep its parts in memory too
}
