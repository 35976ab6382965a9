import { create } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import {
  ConfigurationProject,
  type ListAgentConfigFilesRequest,
  ListAgentConfigFilesResponseSchema,
} from '../../../proto/gen/configuration_project_pb.ts'
import { type UnaryMethod, unaryService } from '../../../proto/unary.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'
import type { AgentConfigFiles } from './agent-config-files.ts'

/** Rails waits 10 s at the most for a page that shows it. ms */
const timeoutMs = 10_000

/** Service ConfigurationProject: which agents a project has files of (doc/reference/tunnel-protocol.md 1.12). */
export function configurationProjectService(configFiles: AgentConfigFiles): ReadonlyMap<string, UnaryMethod> {
  return unaryService(ConfigurationProject, {
    listAgentConfigFiles: async (request) => {
      const files = await configFiles(coordinatesOf(request), AbortSignal.timeout(timeoutMs))
      return create(ListAgentConfigFilesResponseSchema, { configFiles: files })
    },
  })
}

/** @throws KasError INVALID_MESSAGE */
function coordinatesOf({ repository, gitalyInfo, defaultBranch }: ListAgentConfigFilesRequest): GitalyCoordinates {
  if (!repository) throw required('repository')
  if (!gitalyInfo) throw required('gitaly_info')
  const { storageName, relativePath, glRepository, glProjectPath } = repository
  for (const [name, value] of Object.entries({
    'gitaly_info.address': gitalyInfo.address,
    'repository.storage_name': storageName,
    'repository.relative_path': relativePath,
    'repository.gl_repository': glRepository,
    'repository.gl_project_path': glProjectPath,
  })) {
    if (value === '') throw required(name)
  }
  const { address, token, features } = gitalyInfo
  return { address, token, features, repository, defaultBranch }
}

function required(name: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `${name} is required` })
}
