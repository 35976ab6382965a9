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
  /** number of branches; kas has a mirror for each */
  readonly branches: number
}

export const deltaBomb: Attack<Size, string> = {
  name: 'delta-bomb',
  what: 'branches with a pack of some hundred bytes whose file has gigabytes, which kas is to fetch',
  refusal: /more than 64 MiB of memory/,
  cheap: { fileBytes: 256 * 2 ** 20, branches: 4 },
  full: { fileBytes: 3 * 2 ** 30, branches: 16 },
  /** @returns the commit, whose hash takes long to compute */
  async prepare({ evilRepository }, { fileBytes }) {
    const { commit } = await writeDeltaBomb(evilRepository, { fileBytes, branch: 'bomb' })
    return { made: commit, clean: async () => undefined }
  },
  async play(stage, { branches }, signal, commit) {
    const connection = await dialStreams(stage, stage.holder)
    const end = async () => connection.destroy()
    const ask = async (_: unknown, i: number) => {
      const branch = `bomb-${i}`
      await writeFile(join(stage.evilRepository, 'refs', 'heads', branch), `${commit}\n`)
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

function requestOf(branch: string): Buffer {
  const request = create(ObjectsToSynchronizeRequestSchema, {
    projectId: 'evil/clusters',
    ref: { ref: { case: 'branch', value: branch } },
    paths: [{ path: { case: 'glob', value: '**/*.yaml' } }],
  })
  const bytes = toBinary(ObjectsToSynchronizeRequestSchema, request)
  return Buffer.concat([framePrefix(bytes.length), bytes])
}
