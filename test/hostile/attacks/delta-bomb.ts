import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import { getObjectsMethod } from '../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { ObjectsToSynchronizeRequestSchema } from '../../../src/proto/gen/gitops_pb.ts'
import { framePrefix } from '../../../src/proto/grpc/frames.ts'
import { writeDeltaBomb } from '../../support/delta-bomb.ts'
import type { Attack } from '../attack.ts'
import { dialStreams } from '../raw-streams.ts'

interface Size {
  readonly fileBytes: number
  /** each is a mirror of its own at kas */
  readonly branches: number
}

/** Of each size one commit: what it takes to hash is not the attack. */
const commits = new Map<string, Promise<string>>()

export const deltaBomb: Attack<Size> = {
  name: 'delta-bomb',
  what: 'branches with a pack of some hundred bytes whose file has gigabytes, which kas is to fetch',
  refusal: /more than 64 MiB of memory/,
  cheap: { fileBytes: 256 * 2 ** 20, branches: 4 },
  full: { fileBytes: 3 * 2 ** 30, branches: 16 },
  async play({ evilRepository, ...stage }, { fileBytes, branches }, signal) {
    const key = `${evilRepository} ${fileBytes}`
    const written = commits.get(key) ?? write(evilRepository, fileBytes)
    commits.set(key, written)
    const commit = await written
    const connection = await dialStreams({ evilRepository, ...stage }, stage.holder)
    const end = async () => connection.destroy()
    const ask = async (_: unknown, i: number) => {
      const branch = `bomb-${i}`
      await writeFile(join(evilRepository, 'refs', 'heads', branch), `${commit}\n`)
      const stream = connection.open(getObjectsMethod, stage.evil.agentToken)
      void stream.write(requestOf(branch))
      return await stream.refused
    }
    try {
      const refusals = await abortable(Promise.all(Array.from({ length: branches }, ask)), signal)
      return { refusal: [...new Set(refusals)].join('; '), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}

async function write(repository: string, fileBytes: number): Promise<string> {
  return (await writeDeltaBomb(repository, { fileBytes, branch: 'bomb' })).commit
}

function requestOf(branch: string): Buffer {
  const request = create(ObjectsToSynchronizeRequestSchema, {
    projectId: 'evil/clusters',
    ref: { ref: { case: 'branch', value: branch } },
    paths: [{ path: { case: 'glob', value: '**/*.yaml' } }],
  })
  const bytes = toBinary(ObjectsToSynchronizeRequestSchema, request)
  return Buffer.concat([framePrefix(bytes.length), bytes])
}
