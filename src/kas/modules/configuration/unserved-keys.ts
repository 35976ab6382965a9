import type { AgentId } from '../../../call/call.ts'
import type { KasHost, StatusLine } from '../../module.ts'

/** Agents that are named in `kas status`. */
const maxLines = 20

/** Agents that are connected here, of whose files `kas status` says what GitLab will ask for in vain. */
export class UnservedKeys {
  readonly #agentConfig: Pick<KasHost['agentConfig'], 'followed'>
  /** streams of each */
  readonly #agents = new Map<AgentId, number>()

  constructor(components: { readonly agentConfig: Pick<KasHost['agentConfig'], 'followed'> }) {
    this.#agentConfig = components.agentConfig
  }

  /** @returns ends it */
  follow(agentId: AgentId): () => void {
    this.#agents.set(agentId, (this.#agents.get(agentId) ?? 0) + 1)
    return () => {
      const left = (this.#agents.get(agentId) ?? 0) - 1
      if (left > 0) this.#agents.set(agentId, left)
      else this.#agents.delete(agentId)
    }
  }

  status(): StatusLine[] {
    const lines = [...this.#agents.keys()].flatMap((agentId): StatusLine[] => {
      const { agent, good } = this.#agentConfig.followed(agentId) ?? {}
      const warning = good?.configuration.warnings.find(({ kind }) => kind === 'unserved')
      if (!agent || !warning) return []
      const of = `agent ${agentId}, ${agent.name} of ${agent.project.path}`
      return [[of, `${warning.key} has no effect: ${warning.hint}`]]
    })
    if (lines.length <= maxLines) return lines
    return [...lines.slice(0, maxLines), ['and more such agents', lines.length - maxLines]]
  }
}
