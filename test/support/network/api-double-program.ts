import { readFileSync } from 'node:fs'
import { ApiDouble } from '../../../dev/api-double/api-double.ts'

/** An API double as a process of its own, for another network. Argument: JSON of ApiDoubleProgramOptions. */

export interface ApiDoubleProgramOptions {
  readonly port: number
  readonly token: string
  /** paths, PEM */
  readonly certificateFile: string
  readonly keyFile: string
  readonly authorityFile: string
}

const read = (file: string) => readFileSync(file, 'utf8')
const { port, token, ...file }: ApiDoubleProgramOptions = JSON.parse(process.argv[2] as string)
const serving = { certificate: read(file.certificateFile), key: read(file.keyFile) }
const double = new ApiDouble({ serving, clientAuthority: read(file.authorityFile) }, { token, port })
await double.start()
process.stdout.write(`${double.url}\n`)
