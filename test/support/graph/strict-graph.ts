/** JSON of a vertex or an arc, keys in the order of the protocol. */
type Text = string

interface Vertex {
  readonly g?: string
  readonly v: string
  readonly r: string
  readonly ns?: string
  readonly n: string
}

interface Arc {
  readonly s: Vertex
  readonly d: Vertex
  readonly t: string
  readonly a?: { readonly e?: boolean }
}

export interface GraphAnswer {
  readonly actions?: readonly {
    readonly svx?: { readonly vx: Vertex }
    readonly dvx?: { readonly vx: Vertex }
    readonly sarc?: Arc
    readonly darc?: Arc
  }[]
  readonly warnings?: readonly { readonly t: string; readonly m: string }[]
  readonly error?: { readonly code: number; readonly code_string: string; readonly reason: string }
}

/** Limit of one message of the client. bytes */
const maxMessageBytes = 4 * 1024 * 1024

const vertexText = ({ g = '', v, r, ns = '', n }: Vertex): Text => [g, v, r, ns, n].join(' ')
const arcText = ({ s, d, t }: Arc): Text => `${vertexText(s)} -${t}> ${vertexText(d)}`

/** The graph of answers in GitLab's client, or stricter: it throws on whatever that client would not accept. */
export class StrictGraph {
  readonly vertices = new Set<Text>()
  /** arcs, with true if the destination is marked as absent */
  readonly arcs = new Map<Text, boolean>()
  readonly warnings: string[] = []
  error: GraphAnswer['error']
  answers = 0
  /** number of accepted actions */
  actions = 0

  /** @throws Error: the client ends */
  take(message: string): void {
    if (Buffer.byteLength(message) > maxMessageBytes) throw new Error('a message is too long')
    const { actions = [], warnings = [], error, ...others } = JSON.parse(message) as GraphAnswer
    const [odd] = Object.keys(others)
    if (odd) throw new Error(`an answer has a key "${odd}"`)
    this.answers++
    this.error = error ?? this.error
    for (const { t, m } of warnings) this.warnings.push(`${t}: ${m}`)
    for (const action of actions) this.#act(action)
  }

  /** Names of the vertices of a kind, in order. */
  names(plural: string): string[] {
    const all = [...this.vertices].map((text) => text.split(' '))
    return all
      .filter(([, , r]) => r === plural)
      .map(([, , , , n]) => n as string)
      .sort()
  }

  /** Arcs as `<plural>/<name> -<type>> <plural>/<name>`, with ` !` after absent destinations, in order. */
  drawn(): string[] {
    const short = (text: string) => {
      const [, , r, , n] = text.split(' ')
      return `${r}/${n}`
    }
    return [...this.arcs]
      .map(([text, isAbsent]) => {
        const [from = '', type = '', to = ''] = text.split(/ (-\w+>) /)
        return `${short(from)} ${type} ${short(to)}${isAbsent ? ' !' : ''}`
      })
      .sort()
  }

  #act({ svx, dvx, sarc, darc, ...others }: NonNullable<GraphAnswer['actions']>[number]): void {
    const given = [svx, dvx, sarc, darc].filter((one) => one !== undefined)
    if (given.length !== 1 || Object.keys(others).length > 0) throw new Error('an action has exactly one key')
    this.actions++
    if (svx) this.#setVertex(vertexText(svx.vx))
    else if (dvx) this.#deleteVertex(dvx.vx)
    else if (sarc) this.#setArc(sarc)
    else if (darc && !this.arcs.delete(arcText(darc))) throw new Error('failed to delete "": empty map key')
  }

  #setVertex(text: Text): void {
    if (this.vertices.has(text)) throw new Error(`${text} is set again`)
    this.vertices.add(text)
  }

  #deleteVertex(vertex: Vertex): void {
    const text = vertexText(vertex)
    if (!this.vertices.delete(text)) throw new Error(`${text} is deleted, and was never set`)
    const attached = [...this.arcs.keys()].find((arc) => arc.startsWith(`${text} -`) || arc.endsWith(`> ${text}`))
    if (attached) throw new Error(`${text} is deleted before ${attached}`)
    if (vertex.r !== 'namespaces' || vertex.g) return
    const inside = [...this.vertices].find((one) => one.split(' ')[3] === vertex.n)
    if (inside) throw new Error(`the Namespace ${vertex.n} is deleted before ${inside}`)
  }

  #setArc(arc: Arc): void {
    for (const end of [arc.s, arc.d]) {
      if (!this.vertices.has(vertexText(end))) throw new Error(`${vertexText(end)} was never set`)
    }
    if (!['or', 'r', 't'].includes(arc.t) || this.arcs.has(arcText(arc))) throw new Error(`${arcText(arc)} again`)
    this.arcs.set(arcText(arc), arc.a?.e === true)
  }
}

/** glab's default request. */
export const defaultRequest = {
  queries: [
    "group == '' && version == 'v1' && (resource in ['pods', 'secrets', 'configmaps', 'serviceaccounts'])",
    "group == 'apps' && version == 'v1' && (resource in ['deployments', 'replicasets', 'daemonsets', 'statefulsets'])",
    "group == 'batch' && version == 'v1' && (resource in ['jobs', 'cronjobs'])",
    "group == 'rbac.authorization.k8s.io' && version == 'v1' && !(resource in ['clusterrolebindings', 'clusterroles'])",
  ].map((expression) => ({ include: { resource_selector_expression: expression } })),
  namespaces: { object_selector_expression: "name != 'kube-system'" },
} as const
