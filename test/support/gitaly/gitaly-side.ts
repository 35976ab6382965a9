import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as tls from 'node:tls'
import type { Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { GitalyCoordinatesByProject } from '../../../src/kas/directory/gitlab/gitaly-coordinates.ts'
import type { GitalyCoordinates } from '../../../src/kas/repositories/gitaly/gitaly-coordinates.ts'
import type { GitalyMetrics } from '../../../src/kas/repositories/gitaly/gitaly-metrics.ts'
import {
  type GitalyRepositoriesOptions,
  gitalyRepositories,
} from '../../../src/kas/repositories/gitaly/gitaly-repositories.ts'
import { GitalyServers, type GitalyServersOptions } from '../../../src/kas/repositories/gitaly/gitaly-servers.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'
import { capturedLog } from '../captured-log.ts'
import { GitalyDouble, type GitalyDoubleOptions } from './gitaly-double.ts'
import { ServedRepository } from './served-repository.ts'

export const gitalyAgent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'platform/clusters' } }

export interface GitalySideOptions {
  readonly double?: Partial<GitalyDoubleOptions>
  readonly repositories?: Partial<GitalyRepositoriesOptions & GitalyServersOptions>
  readonly coordinates?: Partial<GitalyCoordinates>
  readonly clock?: Clock
  /** PEM of the authority that `tls://` trusts */
  readonly authority?: string
}

const noGitalyMetrics: GitalyMetrics = {
  limited: () => undefined,
  forgotten: () => undefined,
  waited: () => undefined,
  answered: () => undefined,
}

/** Starts a repository, a Gitaly that serves it, and kas' client of it with GitLab's description. */
export async function startGitalySide(t: Test, options: GitalySideOptions = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-gitaly-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder)
  const gitaly = await GitalyDouble.start(t, { folder, ...options.double })
  const addresses = new GitalyCoordinatesByProject()
  const learn = (changes: Partial<GitalyCoordinates> = {}) => {
    const coordinates = { ...coordinatesOf(gitaly, repository), ...options.coordinates, ...changes }
    addresses.learn(gitalyAgent.project.id, coordinates, 0)
  }
  learn()
  const { log, lines } = capturedLog()
  const { clock = systemClock } = options
  const servers = new GitalyServers(
    {
      clock,
      metrics: noGitalyMetrics,
      secureContext: async () => tls.createSecureContext(options.authority ? { ca: options.authority } : {}),
    },
    {
      globalLimit: { refillPerSecond: 1000, bucketSize: 1000 },
      serverLimit: { refillPerSecond: 1000, bucketSize: 1000 },
      userAgent: 'gitlab-kas/v18.5.0/abcdef',
      ...options.repositories,
    },
  )
  t.teardown(() => servers.stop())
  const repositories = gitalyRepositories(
    { addresses, servers, log, random: () => 0, clock },
    { pollMs: 20, minBackoffMs: 20, maxBackoffMs: 200, ...options.repositories },
  )
  t.teardown(() => repositories.stop())
  await repositories.start()
  return { folder, repository, gitaly, addresses, servers, repositories, learn, log, lines }
}

function coordinatesOf(gitaly: GitalyDouble, { relativePath }: ServedRepository): GitalyCoordinates {
  return {
    address: gitaly.address,
    token: gitaly.token,
    features: {},
    repository: {
      storageName: 'default',
      relativePath,
      glRepository: 'project-1',
      glProjectPath: gitalyAgent.project.path,
      gitObjectDirectory: '',
      gitAlternateObjectDirectories: [],
    },
    defaultBranch: 'main',
  }
}
