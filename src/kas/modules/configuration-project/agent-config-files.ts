import type { Clock } from '../../../lib/clock.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'
import { GitalyRepository } from '../../repositories/gitaly/gitaly-repository.ts'
import type { GitalyServers } from '../../repositories/gitaly/gitaly-servers.ts'

export interface AgentConfigFile {
  /** full path */
  readonly name: string
  readonly agentName: string
}

/** Lists the configuration files in a repository, where the caller says that it lies. */
export type AgentConfigFiles = (coordinates: GitalyCoordinates, signal: AbortSignal) => Promise<AgentConfigFile[]>

const folder = '.gitlab/agents'
const configFile = /^\.gitlab\/agents\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\/config\.yaml$/

/** Those of names that an agent may have, in git's order. */
export function agentConfigFiles({ servers, clock }: { servers: GitalyServers; clock: Clock }): AgentConfigFiles {
  return async (coordinates, signal) => {
    const server = () => servers.at(coordinates.address)
    const repository = new GitalyRepository(coordinates, { server, features: () => coordinates.features, clock })
    const names = await repository.files(folder, signal)
    return names.flatMap((name) => {
      const agentName = configFile.exec(name)?.[1]
      return agentName ? [{ name, agentName }] : []
    })
  }
}
