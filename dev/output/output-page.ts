import { jqLines } from './jq-lines.ts'
import { commandsOf, kindOf, nameOfRef, type OutputSchema, type Schema } from './output-schema.ts'

/** Returns doc/reference/output.md, made from the schema. */
export function outputPage({ definitions }: OutputSchema): string {
  const all = Object.entries(definitions)
  const kinds = all.filter(([, schema]) => kindOf(schema) !== undefined)
  const parts = all.filter(([, schema]) => schema.properties && kindOf(schema) === undefined)
  const section = ([name, schema]: [string, Schema]) => sectionText(name, schema, definitions)
  return `${introduction}
${commandTable(kinds)}
${questions}
## Kinds

${kinds.map(section).join('\n')}
## Parts of kinds

${parts.map(section).join('\n')}`
}

const introduction = `# Output of commands for programs

\`-o json\` and \`-o yaml\` print one object with \`apiVersion\` (now \`kas/v1\`) and \`kind\`. Tables are for people and may change.

- Keys are in camelCase. Times are in UTC, in the format of RFC 3339.
- If a value is unknown or does not exist, its key is absent. The tables mark such keys as optional.
- Objects have no other keys. [output.schema.json](output.schema.json) is a JSON schema of all kinds.

\`kas log -o json\` prints the lines of the access log unchanged. [access-log.md](access-log.md) lists their keys.

## Options of commands that print data

| Option | Effect | Not with |
|---|---|---|
| \`-o, --output FORMAT\` | prints \`table\`, \`wide\`, \`name\`, \`json\` or \`yaml\`; the help of each command lists its formats | |
| \`--no-headers\` | leaves out the header line of tables | \`-o name\`, \`json\`, \`yaml\` |
| \`--no-color\` | prints no colours, as the variable \`NO_COLOR\` does. Only terminals get colours | |
| \`-q, --quiet\` | prints only errors, on stderr; the exit code is the same | \`-o\`, \`--watch\`, \`--follow\` |

\`npm run output\` writes this page from the types that the commands print.
`

const questions = [
  '## Questions\n\nA test runs each of these commands.\n\n```sh\n',
  ...jqLines.map(({ question, kas, jq }) => `# ${question}\nkas ${kas} -o json | jq ${jq}\n`),
  '```\n',
].join('')

function commandTable(kinds: readonly [string, Schema][]): string {
  const rows = kinds.flatMap(([name, schema]) =>
    commandsOf(schema).map((one) => `| \`${one}\` | [${name}](#${name.toLowerCase()}) |\n`),
  )
  return `| Command | Kind |\n|---|---|\n${rows.sort().join('')}`
}

/** Keys of every kind, which the introduction explains. */
const everywhere: ReadonlySet<string> = new Set(['apiVersion', 'kind'])

function sectionText(name: string, schema: Schema, definitions: OutputSchema['definitions']): string {
  const { description = '', properties = {}, required = [] } = schema
  const commands = commandsOf(schema).map((one) => `\`${one}\``)
  const printed = commands.length > 0 ? ` Printed by ${commands.join(', ')}.` : ''
  const own = Object.entries(properties).filter(([key]) => commands.length === 0 || !everywhere.has(key))
  const rows = own.map(([key, property]) => {
    const optional = required.includes(key) ? '' : 'optional'
    return line(`\`${key}\``, typeText(property, definitions), optional, property.description ?? '')
  })
  return `### ${name}\n\n${description}${printed}\n\n| Key | Type | | Meaning |\n|---|---|---|---|\n${rows.join('')}`
}

const line = (...cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`

function typeText(schema: Schema, definitions: OutputSchema['definitions']): string {
  const { type, enum: words, items, anyOf, additionalProperties } = schema
  if (schema.$ref !== undefined) return refText(nameOfRef(schema), definitions)
  if (schema.const !== undefined) return `\`${String(schema.const)}\``
  if (words) return words.map((one) => `\`${String(one)}\``).join(', ')
  if (anyOf) return anyOf.map((one) => typeText(one, definitions)).join(' or ')
  if (items) return `list of ${typeText(items, definitions)}`
  if (typeof additionalProperties === 'object') return `map to ${typeText(additionalProperties, definitions)}`
  return [type ?? 'any'].flat().join(' or ')
}

/** Returns a reference to a type: a type with keys has a section, others are described in place. */
function refText(name: string, definitions: OutputSchema['definitions']): string {
  const schema = definitions[name] ?? {}
  if (schema.properties) return `[${name}](#${name.toLowerCase()})`
  if (schema.format === 'date-time') return 'time'
  return typeText(schema, definitions)
}
