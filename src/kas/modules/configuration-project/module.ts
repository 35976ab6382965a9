import { create } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import {
  ConfigurationProject,
  type ListAgentConfigFilesRequest,
  ListAgentConfigFilesResponseSchema,
} from '../../../proto/gen/configuration_project_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { HostRepositories, KasHost, KasModule } from '../../module.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'

/** Which agents a project has files of. @returns undefined: without GitLab nobody knows where repositories lie */
export function createConfigurationProject({ repositories }: KasHost): KasModule | undefined {
  const { filesAt } = repositories
  if (!filesAt) return undefined
  return { name: 'configuration project', railsMethods: configurationProjectService(filesAt) }
}

/** Rails waits 10 s at the most: a page shows the files. ms */
const timeoutMs = 10_000

const folder = '.gitlab/agents'
/** of names that an agent may have */
const configFile = /^\.gitlab\/agents\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\/config\.yaml$/

/** Service ConfigurationProject: which agents a project has files of (doc/reference/tunnel-protocol.md 1.12). */
function configurationProjectService(filesAt: NonNullable<HostRepositories['filesAt']>): UnaryMethods {
  return unaryService(ConfigurationProject, {
    listAgentConfigFiles: async (request) => {
      const names = await filesAt(coordinatesOf(request), folder, AbortSignal.timeout(timeoutMs))
      const configFiles = names.flatMap((name) => {
        const agentName = configFile.exec(name)?.[1]
        return agentName ? [{ name, agentName }] : []
      })
      return create(ListAgentConfigFilesResponseSchema, { configFiles })
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
