export interface StatementInput {
  /** SHA-256 by name of each output */
  readonly outputs: ReadonlyMap<string, string>
  /** package URL of the made package */
  readonly purl: string
  readonly commit: string
  /** SHA-256 of package-lock.json */
  readonly lockFile: string
  /** path of the script that makes it, below the project's folder */
  readonly script: string
  /** other files that it is made from */
  readonly materials?: readonly { readonly name: string; readonly digest: Readonly<Record<string, string>> }[]
}

/**
 * Returns a statement of the outputs' commit and lock file, for a rebuild or a signature. It contains no time and no
 * data of this machine.
 *
 * @see https://in-toto.io/Statement/v1, https://slsa.dev/provenance/v1
 */
export function statementOf({ outputs, purl, commit, lockFile, script, materials = [] }: StatementInput): string {
  const source = commit === 'unknown' ? [] : [{ name: 'source', digest: { gitCommit: commit } }]
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [...outputs].map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: `${purl}#${script}`,
        externalParameters: {},
        resolvedDependencies: [...source, { name: 'package-lock.json', digest: { sha256: lockFile } }, ...materials],
      },
      runDetails: { builder: { id: `${purl}#${script}` } },
    },
  }
  return `${JSON.stringify(statement, null, 1)}\n`
}
