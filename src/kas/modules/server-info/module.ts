import { create } from '@bufbuild/protobuf'
import { GetServerInfoResponseSchema, ServerInfo } from '../../../proto/gen/server_info_pb.ts'
import { unaryService } from '../../../proto/unary.ts'
import type { KasModule } from '../../module.ts'

/**
 * Service ServerInfo. GitLab offers this version as image tag of agentk, so it is a version of GitLab, not of kas.
 *
 * @param advertisedVersion - such as `v18.5.0`; a release of GitLab has its version as ref too
 * @see doc/reference/tunnel-protocol.md 1.13, doc/reference/gitlab-contract.md 1.2
 */
export function createServerInfo({ advertisedVersion }: { readonly advertisedVersion: string }): KasModule {
  const currentServerInfo = { version: advertisedVersion, gitRef: advertisedVersion }
  const railsMethods = unaryService(ServerInfo, {
    getServerInfo: async () => create(GetServerInfoResponseSchema, { currentServerInfo }),
  })
  return { name: 'server info', railsMethods }
}
