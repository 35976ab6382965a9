import { readFile } from 'node:fs/promises'
import { LineCounter } from 'yaml'
import type { Finding } from '../../../lib/doctor/findings.ts'
import { parseYamlDocument } from '../../../lib/yaml-document.ts'
import { configLines } from '../config-lines.ts'

type Environment = Readonly<Record<string, string | undefined>>

const ofDiscovery = ['KAS_CLUSTER_SERVICE', 'KAS_CLUSTER_DNS', 'KAS_CLUSTER_STATIC']
/** Variables that win over the file. A variable of discovery replaces it as a whole. */
const overFile: Readonly<Record<string, readonly string[]>> = {
  'cluster.listen.address': ['KAS_CLUSTER_LISTEN'],
  'cluster.previous_authentication_secret_file': ['KAS_CLUSTER_PREVIOUS_AUTHENTICATION_SECRET_FILE'],
  'cluster.discovery.kubernetes': ofDiscovery,
  'cluster.discovery.dns': ofDiscovery,
  'cluster.discovery.static': ofDiscovery,
}
/** Variables that apply if the file does not have the key. */
const besideFile: Readonly<Record<string, string>> = { 'ops.socket': 'KAS_OPS_SOCKET', 'cluster.name': 'POD_NAME' }

const isKey = (subject: string | undefined): subject is string => /^[a-z_]+(\.[a-z_]+)+$/.test(subject ?? '')

/** Adds the source of the value to each finding about a key: a line of the file, a variable, or the default. */
export async function withOrigins(
  findings: readonly Finding[],
  { file, env }: { readonly file: string; readonly env: Environment },
): Promise<Finding[]> {
  if (!findings.some(({ subject }) => isKey(subject))) return [...findings]
  const text = await readFile(file, 'utf8')
  const { document } = parseYamlDocument(text, new LineCounter())
  const lineOf = configLines(text)
  const isSet = (name: string) => (env[name] ?? '').trim() !== ''
  const originOf = (key: string): string => {
    const variables = (overFile[key] ?? []).filter(isSet)
    if (variables.length > 0) return variables.join(', ')
    if (document.hasIn(key.split('.'))) return `line ${lineOf(key)}`
    const variable = besideFile[key]
    return variable !== undefined && isSet(variable) ? variable : 'default'
  }
  return findings.map((one) => (isKey(one.subject) ? { ...one, from: originOf(one.subject) } : one))
}
