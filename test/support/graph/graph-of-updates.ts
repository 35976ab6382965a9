import { ClientGraph } from '../../../src/kas/modules/views/graph/client-graph.ts'
import { readGraphUpdate } from '../../../src/kas/modules/views/graph/graph-message.ts'
import { ByteBudget } from '../../../src/lib/byte-budget.ts'
import { StrictGraph } from './strict-graph.ts'

/** A strict client's graph of an agent's updates, after kas has converted them. */
export class GraphOfUpdates {
  readonly strict = new StrictGraph()
  readonly #client: ClientGraph
  #taken = 0

  constructor(maxBytes = Number.POSITIVE_INFINITY) {
    this.#client = new ClientGraph(new ByteBudget(maxBytes))
  }

  /** @param texts - all updates so far. @throws Error: the client ends */
  take(texts: readonly string[]): StrictGraph {
    for (; this.#taken < texts.length; this.#taken++) {
      const update = readGraphUpdate(Buffer.from(texts[this.#taken] as string))
      for (const message of this.#client.apply(update)) this.strict.take(message)
    }
    return this.strict
  }
}
