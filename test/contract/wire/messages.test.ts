import { globSync } from 'node:fs'
import { join } from 'node:path'
import { createRegistry, type DescFile } from '@bufbuild/protobuf'
import t from 'tap'
import { wireMessages } from '../../../dev/wire/message-rows.ts'

/** Field numbers equal those of the reference; our own fields may be added. */

const generated = join(import.meta.dirname, '../../../src/proto/gen')
const isFile = (value: unknown): value is DescFile => (value as { kind?: unknown } | undefined)?.kind === 'file'

// wire: message.*
t.test('every message has its fields, under their numbers', async (t) => {
  const modules = await Promise.all(
    globSync('*_pb.ts', { cwd: generated }).map((name) => import(join(generated, name))),
  )
  const registry = createRegistry(...modules.flatMap((module: object) => Object.values(module).filter(isFile)))
  for (const [name, , , fields] of wireMessages) {
    const message = registry.getMessage(name.startsWith('gitaly.') ? name : `gitlab.agent.${name}`)
    const own = message?.fields.map((field) => `${field.name}=${field.number}`) ?? []
    t.strictSame(
      fields.split(' ').filter((field) => !own.includes(field)),
      [],
      name,
    )
  }
})
