import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'

/** Folder of the shipped manifests. */
export const manifestsFolder = join(import.meta.dirname, '../../deploy/kubernetes')

/** Reads all objects of a folder's files, in the order in which kubectl applies them. */
export function readManifests(folder: string): KubernetesObject[] {
  const path = join(manifestsFolder, folder)
  const files = readdirSync(path).filter((file) => file.endsWith('.yaml'))
  return files.sort().flatMap((file) => readManifest(join(path, file)))
}

/** Reads all objects of one file. */
export function readManifest(file: string): KubernetesObject[] {
  return objectsOf(readFileSync(file, 'utf8'), file)
}

/** Parses all objects of a text, as YAML 1.1 like kubectl. @param name - name of the text, for errors */
export function objectsOf(text: string, name: string): KubernetesObject[] {
  const documents = parseAllDocuments(text, { version: '1.1', strict: true })
  if (!Array.isArray(documents)) throw new Error(`${name} is empty`)
  const problem = documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])[0]
  if (problem) throw new Error(`${name}: ${problem.message}`, { cause: problem })
  return documents.map((document) => document.toJS() as KubernetesObject)
}

/** @throws Error if there is no such object */
export function findObject(objects: readonly KubernetesObject[], kind: string, name: string): KubernetesObject {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name)
  if (!found) throw new Error(`there is no ${kind} ${name}`)
  return found
}
