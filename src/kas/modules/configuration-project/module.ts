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

/**
 * Lists the agents for which a project has files.
 *
 * @returns undefined: only GitLab knows the locations of repositories
 */
export function createConfigurationProject({ repositories }: KasHost): KasModule | undefined {
  const { filesAt } = repositories
  if (!filesAt) return undefined
  return { name: 'configuration project', railsMethods: configurationProjectService(filesAt) }
}

/** Rails waits at most 10 s: a page shows the files. In ms. */
const timeoutMs = 10_000

const folder = '.gitlab/agents'
/** configuration files with a valid agent name */
const configFile = /^\.gitlab\/agents\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\/config\.yaml$/

/** Service ConfigurationProject: lists agents for which a project has files (doc/reference/tunnel-protocol.md 1.12). */
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
