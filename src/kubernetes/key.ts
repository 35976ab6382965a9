/** Which object: the version of its group is not part of it. */
export interface ObjectKey {
  /** empty: the core group */
  readonly group: string
  readonly kind: string
  /** empty: cluster-wide */
  readonly namespace: string
  readonly name: string
}

/** `group/Kind/namespace/name`: for maps, and for order. */
export function keyText({ group, kind, namespace, name }: ObjectKey): string {
  return `${group}/${kind}/${namespace}/${name}`
}

/** As people read it: `Deployment shop/web`, `Namespace shop`, `Certificate.cert-manager.io shop/tls`. */
export function keyName({ group, kind, namespace, name }: ObjectKey): string {
  return `${kind}${group && `.${group}`} ${namespace && `${namespace}/`}${name}`
}

/** For maps, of what is known by `kindKey`. */
export function placeKey(kind: string, namespace: string, name: string): string {
  return [kind, namespace, name].join('\n') // it takes the room of one text: what a template makes stays beside its parts
}
