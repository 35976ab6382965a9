/** A tenant: writes the values of its ConfigMaps over and over, at a rate. Asked over IPC (`WriteQuestion`). */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'

export interface WriterSettings {
  readonly server: string
  readonly caFile: string
  readonly token: string
}

export interface WriteQuestion {
  readonly namespace: string
  /** number of its ConfigMaps: `map-0` and so on */
  readonly objects: number
  /** of all together; as many as the API server takes if it takes fewer */
  readonly perSecond: number
  readonly seconds: number
}

export interface Written {
  readonly perSecond: number
}

/** writes at once */
const width = 16

const { server, caFile, token } = JSON.parse(process.argv[2] ?? '') as WriterSettings
const pool = new Pool(server, { connections: width, connect: { ca: readFileSync(caFile) } })
const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/merge-patch+json' }
let value = 0

process.on('message', async (question: WriteQuestion) => process.send?.(await write(question)))
process.on('disconnect', () => process.exit())
process.send?.('ready')

async function write({ namespace, objects, perSecond, seconds }: WriteQuestion): Promise<Written> {
  const begun = performance.now()
  let written = 0
  const worker = async () => {
    for (;;) {
      const [at, number] = [(written * 1000) / perSecond, written++]
      const waitMs = at - (performance.now() - begun)
      if (waitMs > 1) await sleep(waitMs)
      if (performance.now() - begun >= seconds * 1000) return
      const path = `/api/v1/namespaces/${namespace}/configmaps/map-${number % objects}?fieldManager=tenant`
      const body = JSON.stringify({ data: { setting_0: `written ${value++}` } })
      const answer = await pool.request({ path, method: 'PATCH', headers, body })
      await answer.body.dump()
      if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return { perSecond: (written - width) / seconds }
}
