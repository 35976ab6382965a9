import t from 'tap'
import { agentFileKeys } from '../../../dev/wire/agent-file-rows.ts'
import { parseAgentConfiguration } from '../../../src/kas/agent-config/agent-config-file.ts'
import { moduleSchemas } from '../../../src/kas/module-schemas.ts'

/** Each single key of an agent's configuration file (doc/reference/tunnel-protocol.md 7.2). */

/** Values that a part of the file needs beside the tested key. */
const needed: Readonly<Record<string, object>> = {
  'projects[]': { id: 'a' },
  'groups[]': { id: 'a' },
  impersonate: { username: 'u' },
  'extra[]': { key: 'k', val: ['v'] },
}

/** Returns a file with this value at the path. */
function fileWith(path: string, value: unknown): object {
  const [first = '', ...rest] = path.split('.')
  const below = rest.length === 0 ? value : { ...needed[first], ...fileWith(rest.join('.'), value) }
  return first.endsWith('[]') ? { [first.slice(0, -2)]: [below] } : { [first]: below }
}

const parse = (file: object) =>
  parseAgentConfiguration('config.yaml', Buffer.from(JSON.stringify(file)), moduleSchemas.list)

// wire: file-key.*
for (const [path, good, wrong] of agentFileKeys) {
  t.test(path, async (t) => {
    const { warnings } = parse(fileWith(path, good))
    t.strictSame(
      warnings.filter(({ kind }) => kind !== 'unserved').map(({ key }) => key),
      [],
      'it is known',
    )
    if (wrong === undefined) return
    t.throws(() => parse(fileWith(path, wrong)), {
      code: 'CONFIGURATION_INVALID',
      message: new RegExp(
        `^Config: config\\.yaml: .*${path.replaceAll('[]', '[0]').replaceAll(/[.[\]]/g, '\\$&')}: found `,
      ),
    })
  })
}
